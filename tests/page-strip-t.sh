# Tests viewer/page/strip.awk, by which the page's sources go into the command: comments and blanks go, and what is in
# strings, templates and regular expressions stays.
. "$top_srcdir/tests/tap.sh"

strip() {
    printf '%s\n' "$1" | LC_ALL=C "$AWK" -f "$top_srcdir/viewer/page/strip.awk" ${2:+-v css=1} -
}

plan 17
# shellcheck disable=SC2016 # these are scripts
{
    is "$(strip '  const a = 1;   // why')" 'const a=1;' 'comments behind a line, indentation and blanks beside signs go'
    is "$(strip '/* one
   two */
let b; /* x */ let c;')" 'let b;let c;' 'comments go, over several lines, too, and lines that are empty then'
    is "$(strip 'return typeof  x in  y;')" 'return typeof x in y;' 'a blank stays between words'
    is "$(strip 'a + +b - -c + ++d')" 'a+ +b- -c+ ++d' 'a blank stays between signs that would be one'
    is "$(strip "a = 'x  // y' + \"/* z */  \";")" "a='x  // y'+\"/* z */  \";" 'strings stay, with what looks like a comment'
    is "$(strip "a = 'it\\'s  // b';  // c")" "a='it\\'s  // b';" 'an escaped quote does not end a string'
    is "$(strip 'a = `x  ${ b  +  `  ${ {c: 1}.c  }  ` }  // y`;  // z')" 'a=`x  ${b+`  ${{c:1}.c}  `}  // y`;' \
        'the text of templates stays, and expressions in them are code, with templates of their own'
    is "$(strip '  a = `one
    two  // x
` ;')" 'a=`one
    two  // x
`;' 'lines of a template stay as they are'
    is "$(strip "a.replace(/[/'\"  ]  \\/\\/ x/g, '')")" "a.replace(/[/'\"  ]  \\/\\/ x/g,'')" \
        'a regular expression stays, with quotes and slashes in it'
    is "$(strip 'const is = (s) => /  a/.test(s) || /b  /.exec(s);')" 'const is=(s)=> /  a/.test(s)|| /b  /.exec(s);' \
        'a slash behind a sign begins a regular expression'
    is "$(strip 'return /  a/.test(s);')" 'return /  a/.test(s);' 'so does one behind "return"'
    is "$(strip 'x = (a + b) / 2 / c[1] / d;  y = 1')" 'x=(a+b) / 2 / c[1] / d;y=1' 'behind a bracket or a word it divides'
    is "$(strip 'f(a ? b : c, { d, ...e })')" 'f(a?b:c,{d,...e})' 'a question and its answers keep their signs'
}
is "$(strip '  a > b .c:not(.d) , e { margin : 0 4px;  color: red; }' css)" 'a > b .c:not(.d) ,e{margin :0 4px;color:red;}' \
    'blanks between selectors and between values stay in a style'
is "$(strip 'a { width: calc(100vh - 116px); /* x */ }' css)" 'a{width:calc(100vh - 116px);}' \
    'blanks in a calculation stay in a style'
is "$(strip 'a { font: "A  // B", c; }' css)" 'a{font:"A  // B",c;}' 'strings stay in a style'

sources=$(cat "$top_srcdir"/viewer/page/*.js)
is "$(strip "$sources" | grep -c -e '^[[:space:]]' -e '^//' -e '^/\*')" 0 "no line of the page's scripts has a comment or a blank in front"
done_testing
