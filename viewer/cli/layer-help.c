/*
 * Explains a layer of stack text on a terminal.
 *
 * The text is the layer's section of doc/stack-text.md, built into the command. That page is a small part of Markdown:
 * paragraphs, tables of arguments with three columns, and examples between fences.
 */
#include "config.h"

#include <string.h>

#include "viewer/cli/layer-help.h"

#define HELP_WIDTH  80
#define HELP_INDENT 4
#define HELP_LINE   2048

/* The lines of doc/stack-text.md, as a rule of local.mk writes them. */
static const char *const help_lines[] = {
#include "viewer/cli/stack-text.inc"
    NULL,
};

/* The heading of a layer's section is "### " and its name, behind the headings "## Bases" and "## Adaptors". */
static const char *
help_heading(const char *line)
{
    return strncmp(line, "### ", 4) == 0 ? line + 4 : NULL;
}

const char *
layer_help_name(size_t index)
{
    bool layers = false;

    for (const char *const *line = help_lines; *line != NULL; line++) {
        const char *name = help_heading(*line);

        if (strncmp(*line, "## ", 3) == 0)
            layers = strcmp(*line, "## Bases") == 0 || strcmp(*line, "## Adaptors") == 0;
        if (layers && name != NULL && index-- == 0)
            return name;
    }
    return NULL;
}

bool
layer_help_has(const char *name)
{
    const char *each;

    for (size_t i = 0; (each = layer_help_name(i)) != NULL; i++) {
        if (strcmp(each, name) == 0)
            return true;
    }
    return false;
}

/* Where the next word is put. */
struct help_flow {
    FILE *out;
    size_t indent;
    size_t column; /* 0: at the start of a line */
};

static void
help_word(struct help_flow *flow, const char *word, size_t length)
{
    if (flow->column != 0 && flow->column + 1 + length > HELP_WIDTH) {
        fputc('\n', flow->out);
        flow->column = 0;
    }
    if (flow->column == 0)
        flow->column = (size_t)fprintf(flow->out, "%*s", (int)flow->indent, "");
    else if (flow->column > flow->indent)
        flow->column += (size_t)fprintf(flow->out, " ");
    flow->column += fwrite(word, 1, length, flow->out);
}

/* Copy text without the marks of code (`...`) and of links ([text](target)). */
static void
help_plain(const char *text, size_t length, char *out)
{
    const char *end = text + length;

    while (text < end) {
        if (strncmp(text, "](", 2) == 0 && memchr(text, ')', (size_t)(end - text)) != NULL)
            text = memchr(text, ')', (size_t)(end - text));
        else if (*text != '`' && *text != '[')
            *out++ = *text;
        text++;
    }
    *out = '\0';
}

/* Add text to a paragraph, broken into lines between words. */
static void
help_flow_text(struct help_flow *flow, const char *text, size_t length)
{
    char plain[HELP_LINE];
    char *rest = NULL;

    help_plain(text, length < HELP_LINE ? length : HELP_LINE - 1, plain);
    for (char *word = strtok_r(plain, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
        help_word(flow, word, strlen(word));
}

static void
help_flow_end(struct help_flow *flow)
{
    if (flow->column != 0)
        fputc('\n', flow->out);
    flow->column = 0;
}

/* Print a row of a table, "| name | type | text |": the name and the type, and the text below them. */
static void
help_row(const char *row, FILE *out)
{
    struct help_flow flow = { .out = out, .indent = HELP_INDENT / 2 };
    const char *cells[3];
    size_t lengths[3];

    for (size_t i = 0; i < 3; i++) {
        row += strspn(row, "| ");
        cells[i] = row;
        lengths[i] = strcspn(row, "|");
        row += lengths[i];
    }
    help_flow_text(&flow, cells[0], lengths[0]);
    fputs("   ", out);
    flow.column += 3;
    flow.indent = flow.column;
    help_flow_text(&flow, cells[1], lengths[1]);
    help_flow_end(&flow);
    flow.indent = HELP_INDENT + 2;
    help_flow_text(&flow, cells[2], lengths[2]);
    help_flow_end(&flow);
}

/* Whether the line is the head of a table, or the rule below it. */
static bool
help_is_head(const char *line)
{
    return strcmp(line, "| argument | | |") == 0 || strncmp(line, "| --- |", 7) == 0;
}

static void
help_print_section(const char *const *line, FILE *out)
{
    struct help_flow flow = { .out = out };
    bool example = false;

    for (; *line != NULL && (*line)[0] != '#'; line++) {
        bool fence = strncmp(*line, "```", 3) == 0;

        if (fence || (*line)[0] == '|' || (*line)[0] == '\0')
            help_flow_end(&flow);
        if (fence)
            example = !example;
        else if (example)
            fprintf(out, "%*s%s\n", HELP_INDENT, "", *line);
        else if ((*line)[0] == '|' && !help_is_head(*line))
            help_row(*line, out);
        else if ((*line)[0] == '\0' && line[1] != NULL && line[1][0] != '#')
            fputc('\n', out);
        else if ((*line)[0] != '|')
            help_flow_text(&flow, *line, strlen(*line));
    }
    help_flow_end(&flow);
}

void
layer_help_print(const char *name, FILE *out)
{
    for (const char *const *line = help_lines; *line != NULL; line++) {
        const char *heading = help_heading(*line);

        if (heading == NULL || strcmp(heading, name) != 0)
            continue;
        fprintf(out, "%s\n", heading);
        help_print_section(line + 1, out);
        fputs("\n`man 7 tidemark-stack` has the grammar and all layers.\n", out);
        return;
    }
}
