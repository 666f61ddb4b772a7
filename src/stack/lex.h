/* Splits stack text into words and signs. */
#ifndef TIDEI_STACK_LEX_H
#define TIDEI_STACK_LEX_H

#include <stdbool.h>
#include <stddef.h>

enum stack_token_type {
    STACK_END,
    STACK_WORD,
    STACK_PIPE,
    STACK_OPEN,
    STACK_CLOSE,
    STACK_COMMA,
    STACK_EQUALS,
    STACK_BRACE_OPEN,
    STACK_BRACE_CLOSE,
    STACK_UNCLOSED, /* a quote without its end */
};

struct stack_token {
    enum stack_token_type type;
    bool quoted;
    unsigned column;  /* in characters of UTF-8, from 1 */
    const char *word; /* without quotes and backslashes (borrowed from the lexer's words); else NULL */
};

struct stack_lexer {
    const char *next; /* borrows the text */
    unsigned column;
    char *words; /* where the next word is stored; the buffer has room for the text's length and one byte */
};

/* `words` (borrowed) has room for strlen(text) + 1 bytes. */
void tidei_stack_lex_init(struct stack_lexer *lexer, const char *text, char *words);

/* Return the next token; at the end STACK_END, at every further call, too. */
struct stack_token tidei_stack_lex(struct stack_lexer *lexer);

#endif
