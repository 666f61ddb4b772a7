/* Splits stack text into words and signs; see the grammar in src/stack/parse.c. */
#include "src/stack/parse.h"

#include <string.h>

#define LEX_SIGNS "|(),={}"

void
tidei_stack_lex_init(struct stack_lexer *lexer, const char *text, char *words)
{
    lexer->next = text;
    lexer->column = 1;
    lexer->words = words;
}

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
    return byte != '\0' && byte != '"' && !lex_is_space(byte) && strchr(LEX_SIGNS, byte) == NULL;
}

/*
 * Words are stored in the order of the text, each with a NUL. There is room for it: a quoted word loses two quotes, and
 * a plain word ends at a byte that is not stored.
 */
static void
lex_plain(struct stack_lexer *lexer, struct stack_token *token)
{
    token->type = STACK_WORD;
    token->word = lexer->words;
    while (lex_is_word(*lexer->next))
        *lexer->words++ = lex_advance(lexer);
    *lexer->words++ = '\0';
}

static void
lex_quoted(struct stack_lexer *lexer, struct stack_token *token)
{
    token->type = STACK_WORD;
    token->quoted = true;
    token->word = lexer->words;
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
    static const enum stack_token_type signs[] = { STACK_PIPE,   STACK_OPEN,       STACK_CLOSE,      STACK_COMMA,
                                                   STACK_EQUALS, STACK_BRACE_OPEN, STACK_BRACE_CLOSE };
    struct stack_token token = { .type = STACK_END };

    while (lex_is_space(*lexer->next))
        lex_advance(lexer);
    token.column = lexer->column;
    if (*lexer->next == '\0')
        return token;
    if (*lexer->next == '"')
        lex_quoted(lexer, &token);
    else if (lex_is_word(*lexer->next))
        lex_plain(lexer, &token);
    else
        token.type = signs[strchr(LEX_SIGNS, lex_advance(lexer)) - LEX_SIGNS];
    return token;
}
