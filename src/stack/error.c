/* Error messages about stack text. */
#include "src/stack/parse.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define STACK_MESSAGE_CAPACITY 512
#define STACK_SHOWN_BYTES      40 /* bytes of a word in a message */
#define STACK_NAME_MOST        32 /* the longest name that is checked for slips */
#define STACK_SLIPS            2
#define STACK_FAR              (STACK_SLIPS + 1) /* distance of an abbreviation, or of a name plus signs */

#define STACK_ABBREVIATION_LEAST 3 /* letters */

/* Replace line breaks of the text: a message is one line. */
static void
stack_one_line(char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = '?';
    }
}

enum tide_status
tidei_stack_fail_status(enum tide_status status, unsigned column, const char *layer, const char *format, ...)
{
    char words[STACK_MESSAGE_CAPACITY];
    va_list arguments;

    va_start(arguments, format);
    if (vsnprintf(words, sizeof(words), format, arguments) < 0)
        words[0] = '\0';
    va_end(arguments);
    stack_one_line(words);
    return tide_error_set(status, "stack text, column %u: %s%s%s", column, layer != NULL ? layer : "",
                          layer != NULL ? ": " : "", words);
}

const char *
tidei_stack_show_word(const char *word, size_t length, char *buffer, size_t capacity)
{
    size_t cut = STACK_SHOWN_BYTES;

    if (length <= STACK_SHOWN_BYTES) {
        snprintf(buffer, capacity, "'%.*s'", (int)length, word);
        return buffer;
    }
    while (cut > 0 && ((unsigned char)word[cut] & 0xc0) == 0x80)
        cut--; /* never within a character of UTF-8 */
    snprintf(buffer, capacity, "'%.*s...'", (int)cut, word);
    return buffer;
}

const char *
tidei_stack_show(const struct stack_token *token, char *buffer, size_t capacity)
{
    if (token->type == STACK_END)
        return "the end of the text";
    if (token->type == STACK_UNCLOSED)
        return "a quote that is not closed";
    if (token->type == STACK_WORD)
        return tidei_stack_show_word(token->word, strlen(token->word), buffer, capacity);
    snprintf(buffer, capacity, "'%c'", STACK_SIGNS[token->type - STACK_PIPE]);
    return buffer;
}

const char *
tidei_stack_choice_at(const void *choices, size_t index)
{
    return ((const char *const *)choices)[index];
}

const char *
tidei_stack_list(stack_name_at name_at, const void *names, char *buffer, size_t capacity)
{
    struct tide_text text = { .data = buffer, .capacity = capacity };
    const char *name;

    buffer[0] = '\0';
    for (size_t i = 0; (name = name_at(names, i)) != NULL; i++) {
        const char *separator = name_at(names, i + 1) == NULL ? " or " : ", ";

        tide_text_format(&text, "%s%s", i == 0 ? "" : separator, name);
    }
    return buffer;
}

static char
stack_lower(char letter)
{
    return letter >= 'A' && letter <= 'Z' ? (char)(letter - 'A' + 'a') : letter;
}

/* Levenshtein distance, one row at a time, ignoring case; more than STACK_SLIPS for a long word. */
static size_t
stack_distance(const char *word, const char *name)
{
    size_t word_length = strlen(word);
    size_t name_length = strlen(name);
    size_t row[STACK_NAME_MOST + 1];

    if (word_length > STACK_NAME_MOST || name_length > STACK_NAME_MOST)
        return STACK_SLIPS + 1;
    for (size_t j = 0; j <= name_length; j++)
        row[j] = j;
    for (size_t i = 1; i <= word_length; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= name_length; j++) {
            size_t replaced = diagonal + (stack_lower(word[i - 1]) != stack_lower(name[j - 1]));
            size_t shorter = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;

            diagonal = row[j];
            row[j] = replaced < shorter ? replaced : shorter;
        }
    }
    return row[name_length];
}

/* "stats" for "statistics": same first letter, and all its letters occur in the name in their order. */
static bool
stack_abbreviates(const char *word, const char *name)
{
    if (strlen(word) < STACK_ABBREVIATION_LEAST || stack_lower(word[0]) != name[0])
        return false;
    for (; *word != '\0' && *name != '\0'; name++)
        word += stack_lower(*word) == *name;
    return *word == '\0';
}

/* "limit[4GiB]" for "limit": the name is followed by a sign that does not end a word. */
static bool
stack_runs_on(const char *word, const char *name)
{
    size_t length = strlen(name);

    return length != 0 && strncmp(word, name, length) == 0 && strchr("[:;<-/", word[length]) != NULL;
}

/* The distance of `word` from `name`: 0 ignoring case, up to STACK_FAR if the name may have been meant, more if not. */
static size_t
stack_slips(const char *word, const char *name)
{
    size_t distance = stack_distance(word, name);

    if (distance == 0 && *name != '\0')
        return 0;
    if (distance <= STACK_SLIPS && distance < strlen(word) && strlen(name) > STACK_SLIPS)
        return distance;
    return stack_runs_on(word, name) || stack_abbreviates(word, name) ? STACK_FAR : STACK_FAR + 1;
}

const char *
tidei_stack_hint(const char *word, stack_name_at name_at, const void *names, char *buffer, size_t capacity)
{
    size_t least = STACK_FAR + 1;
    const char *meant = NULL;
    const char *name;

    for (size_t i = 0; (name = name_at(names, i)) != NULL; i++) {
        size_t slips = stack_slips(word, name);

        if (slips < least) {
            least = slips;
            meant = name;
        }
    }
    if (meant == NULL)
        return "";
    snprintf(buffer, capacity, "; did you mean %s?", meant);
    return buffer;
}
