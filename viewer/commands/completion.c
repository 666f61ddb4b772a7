/* `tidemark completion`: prints shell completion, generated from the tables that parse the options. */
#include "config.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "viewer/commands/commands.h"
#include "viewer/base/output.h"

static const struct command *const commands[] = { COMMANDS(COMMANDS_ENTRY) };

#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

/* The words of a command whose only argument is one of them, as "a|b|c"; NULL: it takes other arguments. */
static const char *
completion_choices(const struct command *command)
{
    const char *end = command->arguments;

    while (islower((unsigned char)*end) || *end == '|')
        end++;
    return *end == '\0' && end > command->arguments ? command->arguments : NULL;
}

/* Print the words of "a|b|c" with blanks between them; nothing for NULL. */
static void
completion_put_words(const char *words)
{
    for (; words != NULL && *words != '\0'; words++)
        putchar(*words == '|' ? ' ' : *words);
}

/* For bash: a list of all options, and a list of the choices of each option that has some. */

static void
bash_option(void *context, const struct option_def *def, void *base)
{
    (void)context;
    (void)base;
    printf(" --%s%s", def->name, option_has_argument(def) ? "=" : "");
}

static void
bash_values(void *context, const struct option_def *def, void *base)
{
    (void)context;
    (void)base;
    for (const char *word = def->choices; word != NULL && *word != '\0';) {
        size_t length = strcspn(word, "|");

        printf(" --%s=%.*s", def->name, (int)length, word);
        word += length + (word[length] == '|');
    }
}

static void
completion_bash(void)
{
    puts("# bash completion for tidemark, made by `tidemark completion bash`.\n"
         "_tidemark()\n"
         "{\n"
         "    local line=${COMP_LINE:0:COMP_POINT} options='' values='' choices=''\n"
         "    local word=${line##*[[:space:]]}\n"
         "    COMPREPLY=()\n"
         "    if ((COMP_CWORD == 1)); then");
    fputs("        COMPREPLY=($(compgen -W '--help --version help", stdout);
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        printf(" %s", commands[i]->name);
    puts("' -- \"$word\"))\n"
         "        return\n"
         "    fi\n"
         "    case ${COMP_WORDS[1]} in");
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        printf("    %s)\n        options='", commands[i]->name);
        command_each_option(commands[i], NULL, bash_option, NULL);
        fputs("'\n        values='", stdout);
        command_each_option(commands[i], NULL, bash_values, NULL);
        fputs("'\n        choices='", stdout);
        completion_put_words(completion_choices(commands[i]));
        puts("'\n        ;;");
    }
    puts("    help)\n"
         "        COMPREPLY=($(compgen -W \"$(tidemark --help | sed -n 's/^  \\([a-z]*\\) .*/\\1/p')\" -- \"$word\"))\n"
         "        return\n"
         "        ;;\n"
         "    esac\n"
         "    case $word in\n"
         "    --*=*)\n"
         "        COMPREPLY=($(compgen -W \"$values\" -- \"$word\"))\n"
         "        # Where \"=\" breaks words, bash wants what stands behind it.\n"
         "        [[ $COMP_WORDBREAKS != *=* ]] || COMPREPLY=(\"${COMPREPLY[@]#*=}\")\n"
         "        if [[ -z ${COMPREPLY[*]} ]]; then\n"
         "            compopt -o filenames 2>/dev/null\n"
         "            COMPREPLY=($(compgen -f -- \"${word#*=}\"))\n"
         "        fi\n"
         "        ;;\n"
         "    -*)\n"
         "        COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
         "        [[ ${COMPREPLY[0]} != *= ]] || compopt -o nospace 2>/dev/null\n"
         "        ;;\n"
         "    *)\n"
         "        if [[ -n $choices ]]; then\n"
         "            COMPREPLY=($(compgen -W \"$choices\" -- \"$word\"))\n"
         "            return\n"
         "        fi\n"
         "        compopt -o filenames 2>/dev/null\n"
         "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
         "        ;;\n"
         "    esac\n"
         "}\n"
         "complete -F _tidemark tidemark");
}

/* For zsh: a line of _arguments for each option. */

/* The first line of `text` inside '...[here]...' */
static void
zsh_text(const char *text)
{
    for (; *text != '\0' && *text != '\n'; text++) {
        if (*text == '\'')
            fputs("'\\''", stdout);
        else if (strchr("[]:\\", *text) != NULL)
            printf("\\%c", *text);
        else
            putchar(*text);
    }
}

static void
zsh_option(void *context, const struct option_def *def, void *base)
{
    (void)context;
    (void)base;
    printf(" \\\n            '%s--%s%s[", def->kind == OPTION_LIST ? "*" : "", def->name,
           option_has_argument(def) ? "=" : "");
    zsh_text(def->help);
    putchar(']');
    if (option_has_argument(def)) {
        printf(":%s:", def->argument);
        if (def->choices == NULL) {
            fputs("_files", stdout);
        } else {
            putchar('(');
            completion_put_words(def->choices);
            putchar(')');
        }
    }
    putchar('\'');
}

static void
completion_zsh(void)
{
    puts("#compdef tidemark\n"
         "# zsh completion for tidemark, made by `tidemark completion zsh`.\n"
         "_tidemark()\n"
         "{\n"
         "    local -a commands\n"
         "    commands=(");
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        printf("        '%s:", commands[i]->name);
        zsh_text(commands[i]->purpose);
        puts("'");
    }
    puts("    )\n"
         "    if ((CURRENT == 2)); then\n"
         "        _describe command commands\n"
         "        return\n"
         "    fi\n"
         "    local command=$words[2]\n"
         "    shift words\n"
         "    ((CURRENT--))\n"
         "    case $command in");
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        printf("    %s)\n        _arguments", commands[i]->name);
        command_each_option(commands[i], NULL, zsh_option, NULL);
        fputs(" \\\n            '", stdout);
        if (completion_choices(commands[i]) == NULL) {
            fputs("*:file:_files", stdout);
        } else {
            fputs("1:word:(", stdout);
            completion_put_words(completion_choices(commands[i]));
            putchar(')');
        }
        puts("'\n        ;;");
    }
    puts("    help)\n"
         "        _describe command commands\n"
         "        ;;\n"
         "    esac\n"
         "}\n"
         "_tidemark \"$@\"");
}

static int
completion_run(struct invocation *call)
{
    if (strcmp(call->arguments[0], "bash") == 0)
        completion_bash();
    else if (strcmp(call->arguments[0], "zsh") == 0)
        completion_zsh();
    else
        return command_misused(call->command, "no completion for this shell: bash and zsh have one");
    return output_finish(COMMAND_FINE);
}

const struct command command_completion = {
    .name = "completion",
    .arguments = "bash|zsh",
    .purpose = "Print what a shell needs to complete commands and options",
    .help = "\n"
            "`make install` puts both where the shells look for them. By hand, for this shell:\n"
            "  eval \"$(tidemark completion bash)\"\n",
    .wanted = &(const struct command_arguments){ 1, "which shell: bash or zsh?", "one shell: bash or zsh at a time" },
    .run = completion_run,
};
