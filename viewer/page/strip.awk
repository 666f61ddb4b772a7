# Leaves out of scripts and styles what only readers need: comments, indentation, and blanks beside signs. Lines stay
# lines. -v css=1: it is a style, in which blanks count around most signs.
#
# What is in strings, templates and regular expressions stays as it is. A "/" begins a regular expression behind a sign
# and divides behind a word, a ")" or a "]": a source that writes it otherwise does not pass the page's own test.

function is_word(c) {
    return c ~ /[A-Za-z0-9_$]/ || c > "~"
}

# Put what follows blanks, with one of them where it must stay.
function put(text, first) {
    first = substr(text, 1, 1)
    if (blanks && out != "" && needs_blank(substr(out, length(out), 1), first))
        out = out " "
    blanks = 0
    out = out text
}

function needs_blank(before, behind) {
    if (css)
        return !(before ~ /[:;,{}]/ || behind ~ /[{};]/)
    if (before == "/" || behind == "/")
        return 1
    return (is_word(before) && is_word(behind)) || (before == behind && before ~ /[+-]/)
}

# The end of what begins at `at` and ends with the sign `quote`: the place behind it.
function behind_quoted(line, at, quote,    c, in_set) {
    for (at++; at <= length(line); at++) {
        c = substr(line, at, 1)
        if (c == "\\")
            at++
        else if (quote == "/" && c == "[")
            in_set = 1
        else if (quote == "/" && c == "]")
            in_set = 0
        else if (c == quote && !in_set)
            return at + 1
    }
    return at
}

# Take in the text of a template from `at` on, up to its end or to an expression in it.
function template(line, at,    from, c) {
    for (from = at; at <= length(line); at++) {
        c = substr(line, at, 1)
        if (c == "\\") {
            at++
        } else if (c == "`" || (c == "$" && substr(line, at + 1, 1) == "{")) {
            at += c == "`" ? 1 : 2
            in_template = 0
            if (c == "$")
                braces[++depth] = 0
            break
        }
    }
    out = out substr(line, from, at - from)
    return at
}

function divides(    last) {
    match(out, /[A-Za-z_$]*$/)
    last = substr(out, length(out), 1)
    return substr(out, RSTART) != "return" && (is_word(last) || last == ")" || last == "]" || last == "}")
}

# Take in one sign outside of templates, or all of a string. Returns the place behind it.
function sign(line, at,    c, two, end) {
    c = substr(line, at, 1)
    two = substr(line, at, 2)
    if (two == "/*") {
        end = index(substr(line, at + 2), "*/")
        in_comment = end == 0
        return end == 0 ? length(line) + 1 : at + end + 3
    }
    if (!css && two == "//")
        return length(line) + 1
    if (c == "'" || c == "\"" || (!css && c == "/" && !divides())) {
        end = behind_quoted(line, at, c)
        put(substr(line, at, end - at))
        return end
    }
    if (!css && c == "`") {
        put(c)
        in_template = 1
        return at + 1
    }
    if (depth && c == "{")
        braces[depth]++
    if (depth && c == "}" && braces[depth]-- == 0) {
        depth--
        in_template = 1
    }
    put(c)
    return at + 1
}

{
    out = ""
    blanks = 0
    for (at = 1; at <= length($0);) {
        if (in_comment) {
            end = index(substr($0, at), "*/")
            in_comment = end == 0
            at = end == 0 ? length($0) + 1 : at + end + 1
        } else if (in_template) {
            at = template($0, at)
        } else if (substr($0, at, 1) ~ /[ \t]/) {
            blanks = 1
            at++
        } else {
            at = sign($0, at)
        }
    }
    if (out != "" || in_template)
        print out
}
