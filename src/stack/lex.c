/* Splits stack text into words and signs; see the grammar in doc/stack-text.md. */
#include "src/stack/parse.h"

#include <string.h>

/* Skip one byte; continuation bytes of UTF-8 do not count as columns. */
static char
lex_advance(struct stack_lexer *lexer)
{
    char byte = *lexer->next++;

    if (((unsigned char)*lexer->next & 0xc0) != 0x80)
        lexer->column++;
    return byte;
}

static bool
lex_is_space(char byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

static bool
lex_is_word(char byte)
{
    return byte != '\0' && byte != '"' && !lex_is_space(byte) && strchr(STACK_SIGNS, byte) == NULL;
}

/*
 * Words are stored in the order of the text, each with a NUL. There is room for it: a quoted word loses two quotes, and
 * a plain word ends at a byte that is not stored.
 */
static void
lex_plain(struct stack_lexer *lexer)
{
    while (lex_is_word(*lexer->next))
        *lexer->words++ = lex_advance(lexer);
    *lexer->words++ = '\0';
}

static void
lex_quoted(struct stack_lexer *lexer, struct stack_token *token)
{
    lex_advance(lexer);
    while (*lexer->next != '"') {
        if (*lexer->next == '\\' && (lexer->next[1] == '"' || lexer->next[1] == '\\'))
            lex_advance(lexer);
        if (*lexer->next == '\0') {
            token->type = STACK_UNCLOSED;
            return;
        }
        *lexer->words++ = lex_advance(lexer);
    }
    lex_advance(lexer);
    *lexer->words++ = '\0';
}

struct stack_token
tidei_stack_lex(struct stack_lexer *lexer)
{
    static const char signs[] = STACK_SIGNS;
    struct stack_token token = { .type = STACK_END };

    while (lex_is_space(*lexer->next))
        lex_advance(lexer);
    token.column = lexer->column;
    if (*lexer->next == '\0')
        return token;
    if (*lexer->next != '"' && !lex_is_word(*lexer->next)) {
        token.type = (enum stack_token_type)(STACK_PIPE + (strchr(signs, lex_advance(lexer)) - signs));
        return token;
    }
    token.type = STACK_WORD;
    token.word = lexer->words;
    token.quoted = *lexer->next == '"';
    if (token.quoted)
        lex_quoted(lexer, &token);
    else
        lex_plain(lexer);
    return token;
}
