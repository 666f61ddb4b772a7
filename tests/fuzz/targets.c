/* The fuzz targets: each runs one input. */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/context/elf.h"
#include "src/context/symbols.h"
#include "src/trace/database/schema.h"
#include "tests/fuzz/fuzz.h"
#include "viewer/ranks/job.h"

/* viewer/commands/main.c, whose main is renamed by the compiler's -Dmain=tidemark_main. */
int tidemark_main(int argc, char **argv);

#define FUZZ_PATH  128
#define FUZZ_WORDS 16

static char fuzz_folder[FUZZ_PATH];
static char fuzz_in[FUZZ_PATH + 16];
static char fuzz_out[FUZZ_PATH + 16];

const struct fuzz_target *
fuzz_find(const char *name)
{
    for (size_t i = 0; i < FUZZ_TARGETS; i++) {
        if (strcmp(fuzz_targets[i].name, name) == 0)
            return &fuzz_targets[i];
    }
    return NULL;
}

bool
fuzz_begin(void)
{
    const char *folder = getenv("TMPDIR");

    /* In memory, if possible: a disk takes half of an input's time. */
    if (folder == NULL)
        folder = access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(fuzz_folder, sizeof(fuzz_folder), "%s/tidemark-fuzz-XXXXXX", folder);
    if (mkdtemp(fuzz_folder) == NULL)
        return false;
    snprintf(fuzz_in, sizeof(fuzz_in), "%s/in", fuzz_folder);
    snprintf(fuzz_out, sizeof(fuzz_out), "%s/out", fuzz_folder);
    return true;
}

/* Remove the database, and the files that the input has made beside it. */
static void
fuzz_clear(void)
{
    DIR *folder = opendir(fuzz_folder);
    struct dirent *entry;

    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(dirfd(folder), entry->d_name, 0);
    }
    if (folder != NULL)
        closedir(folder);
}

void
fuzz_end(void)
{
    fuzz_clear();
    rmdir(fuzz_folder);
}

static void
fuzz_write(const char *path, const uint8_t *data, size_t size)
{
    FILE *file = fopen(path, "w");

    if (file == NULL || fwrite(data, 1, size, file) != size || fclose(file) != 0) {
        perror(path);
        abort();
    }
}

/* Run `tidemark` with the words of `line`, in which IN and OUT stand for the files. It exits with 0, 1, 2 or 3. */
static int
fuzz_command(const char *line)
{
    char text[256];
    char *words[FUZZ_WORDS + 1] = { "tidemark" };
    char *rest = NULL;
    int count = 1;
    int status;

    snprintf(text, sizeof(text), "%s", line);
    for (char *word = strtok_r(text, " ", &rest); word != NULL && count < FUZZ_WORDS; word = strtok_r(NULL, " ", &rest))
        words[count++] = strcmp(word, "IN") == 0 ? fuzz_in : strcmp(word, "OUT") == 0 ? fuzz_out : word;
    words[count] = NULL;
    optind = 0;
    status = tidemark_main(count, words);
    fflush(stdout);
    if (status < 0 || status > 3)
        abort();
    return status;
}

/* Every command that reads a trace. A command that this build does not have refuses its name. */
static const char *const trace_commands[] = {
    "summary --json IN",
    "summary IN",
    "peak --json --blocks=5 IN",
    "peak --by=size --at=50% --from=10% --to=90% --format=csv IN",
    "peak --by=stream --at=#2 --tag=* IN",
    "fragmentation --json IN",
    "fragmentation --request=1MiB --format=md IN",
    "failures --json IN",
    "leaks --json IN",
    "leaks --by=tag IN",
    "timeline --width=60 IN",
    "timeline --json IN",
    "histogram IN",
    "histogram --json IN",
    "top --json IN",
    "top --by=tag IN",
    "layers IN",
    "layers --json IN",
    "diff --json IN IN",
    "report --json --no-names IN",
    "report --detail=small IN IN -o OUT",
    "check --max-peak=1KiB --no-leaks --max-failures=1 IN",
    "export IN",
    "export --format=jsonl --min-size=10 IN",
    "export --format=rmm IN",
    "export --format=chrome --lifetimes IN",
    "export --format=collapsed --weight=live IN",
    "export --format=speedscope IN",
    "export --format=pprof IN -o OUT",
    "query --json IN SELECT*FROM/**/event",
    "query IN SELECT*FROM/**/usage",
    "query IN SELECT*FROM/**/usage/**/JOIN/**/event/**/USING(ns)",
    "replay --json --stack=sim IN",
    "recover --json IN",
};

#define TRACE_COMMANDS (sizeof(trace_commands) / sizeof(trace_commands[0]))

static const char *const trace_tables[] = {
    "allocation",  "meta",         "layer",  "layer_bin",     "thread",         "stream", "tag",
    "loss",        "mark",         "frame",  "callstack",     "unmatched_free", "status", "pool_sample",
    "driver_call", "device_event", "module", "device_sample", "layer_count",
};

/* A schema without types keeps every value as it is; the real one would make numbers of some. */
static const char trace_untyped[] =
    "CREATE TABLE meta(key, value); CREATE TABLE status(status, name, text);"
    "CREATE TABLE layer(layer_id, upstream_layer_id, kind, config, device);"
    "CREATE TABLE layer_bin(layer_id, limit_bytes, upstream_layer_id); CREATE TABLE thread(thread_id, os_tid, name);"
    "CREATE TABLE stream(stream_id, handle, device); CREATE TABLE tag(tag_id, parent_tag_id, name);"
    "CREATE TABLE allocation(allocation_id, layer_id, address, size, alignment, status, tag_id, callstack_id, alloc_ns,"
    "    alloc_duration_ns, alloc_thread_id, alloc_stream_id, free_ns, free_duration_ns, free_thread_id, "
    "free_stream_id);"
    "CREATE TABLE pool_sample(ns, layer_id, used_bytes, reserved_bytes);"
    "CREATE TABLE device_sample(ns, device, free_bytes, total_bytes);"
    "CREATE TABLE layer_count(layer_id, name, value);"
    "CREATE TABLE driver_call(allocation_id, is_free, function, start_ns, duration_ns, thread_id, result);"
    "CREATE TABLE unmatched_free(ns, layer_id, address, size, thread_id, stream_id);"
    "CREATE TABLE mark(ns, thread_id, kind, text, value); CREATE TABLE loss(thread_id, reason, events);"
    "CREATE TABLE device_event(ns, kind, device, pool_address, pool_used_bytes, pool_bytes);";

static const char trace_common[] =
    "CREATE TABLE IF NOT EXISTS module(module_id INTEGER PRIMARY KEY, path, build_id, base, size);"
    "CREATE TABLE IF NOT EXISTS frame(frame_id INTEGER PRIMARY KEY, address, module_id, function, file, line);"
    "CREATE TABLE IF NOT EXISTS callstack(callstack_id, position, frame_id);"
    "INSERT INTO meta VALUES ('format_version', 1), ('start_unix_ns', 1700000000000000000), ('complete', 1);"
    "INSERT INTO layer(layer_id, upstream_layer_id, kind, config) VALUES (1, 2, 'log', ''), (2, 3, 'pool', ''),"
    "    (3, 4, 'log', ''), (4, NULL, 'sim', '');";

void
fuzz_write_trace(const char *path, const uint8_t *data, size_t size)
{
    static const char magic[] = "SQLite format 3";
    char schema[32768];

    if (size > 0)
        size--;
    if (size >= sizeof(magic) && memcmp(data, magic, sizeof(magic)) == 0) {
        fuzz_write(path, data, size);
        return;
    }
    snprintf(schema, sizeof(schema), "PRAGMA application_id = %d; %s; %s", TIDEI_TRACE_APPLICATION_ID,
             size > 0 && (data[0] & 1) != 0 ? trace_untyped : tidei_trace_schema, trace_common);
    fuzz_write_rows(path, schema, trace_tables, sizeof(trace_tables) / sizeof(trace_tables[0]),
                    size > 0 ? data + 1 : data, size > 0 ? size - 1 : 0);
}

/* The file of a trace, or rows of one; the last byte selects a command. */
static void
trace_run(const uint8_t *data, size_t size, bool every)
{
    uint8_t choice = size > 0 ? data[size - 1] : 0;

    fuzz_write_trace(fuzz_in, data, size);
    for (size_t i = 0; i < TRACE_COMMANDS; i++) {
        if (every || choice % TRACE_COMMANDS == i)
            fuzz_command(trace_commands[i]);
    }
    fuzz_clear();
}

/* A trace that an import has made is read by every command; an import that failed leaves no file. */
static void
import_check(int status, bool every)
{
    bool made = access(fuzz_out, F_OK) == 0;

    if (status == 1 || made != (status == 0 || status == 3))
        abort();
    if (made && fuzz_command("summary OUT") != status)
        abort();
    if (made && every && (fuzz_command("export --format=rmm OUT") != status || fuzz_command("peak OUT") != status))
        abort();
    fuzz_clear();
}

static void
rmm_run(const uint8_t *data, size_t size, bool every)
{
    fuzz_write(fuzz_in, data, size);
    import_check(fuzz_command("import --from=rmm IN -o OUT"), every);
}

static void
pytorch_run(const uint8_t *data, size_t size, bool every)
{
    fuzz_write(fuzz_in, data, size);
    import_check(fuzz_command("import --from=pytorch IN -o OUT"), every);
}

static const char *const nsys_tables[] = {
    "CUDA_GPU_MEMORY_USAGE_EVENTS", "CUPTI_ACTIVITY_KIND_RUNTIME",    "StringIds",
    "ENUM_CUDA_MEM_KIND",           "TARGET_INFO_SESSION_START_TIME",
};

static const char nsys_schema[] =
    "CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS(start, address, bytes, memoryOperationType, memKind, deviceId,"
    "    globalPid, correlationId, streamId, localMemoryPoolAddress, localMemoryPoolSize, localMemoryPoolUtilizedSize);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(globalTid, correlationId, start, end, nameId, returnValue);"
    "CREATE TABLE StringIds(id, value); CREATE TABLE ENUM_CUDA_MEM_KIND(id, label);"
    "CREATE TABLE TARGET_INFO_SESSION_START_TIME(utcEpochNs);";

static void
nsys_run(const uint8_t *data, size_t size, bool every)
{
    if (size >= 6 && memcmp(data, "SQLite", 6) == 0)
        fuzz_write(fuzz_in, data, size);
    else
        fuzz_write_rows(fuzz_in, nsys_schema, nsys_tables, sizeof(nsys_tables) / sizeof(nsys_tables[0]), data, size);
    import_check(fuzz_command("import --from=nsys IN -o OUT"), every);
}

#define FUZZ_JOB_TABLE(name, columns) #name,
static const char *const job_tables[] = { JOB_TABLES(FUZZ_JOB_TABLE) };
#undef FUZZ_JOB_TABLE

#define JOB_TABLE_NAMES (sizeof(job_tables) / sizeof(job_tables[0]))

/* Every command that reads the file of a job. */
static const char *const job_commands[] = {
    "ranks IN",
    "ranks --json IN",
    "ranks --by=class --rank=1 --max-skew=10% IN",
    "check --max-skew=10% --max-growth=1MiB --max-peak=1KiB IN",
    "report --json IN",
    "report --detail=small IN -o OUT",
};

#define JOB_COMMANDS (sizeof(job_commands) / sizeof(job_commands[0]))

/* A job's schema. Where `untyped`, every value stays as it is, and none is refused. */
static void
job_write_schema(bool untyped, char *out, size_t size)
{
    int length = snprintf(out, size, "PRAGMA application_id = %d; %s;", JOB_APPLICATION_ID, job_schema);

    for (size_t i = 0; untyped && i < JOB_TABLE_NAMES; i++)
        length += snprintf(out + length, size - (size_t)length,
                           "CREATE TABLE g AS SELECT * FROM %s; DROP TABLE %s; ALTER TABLE g RENAME TO %s;",
                           job_tables[i], job_tables[i], job_tables[i]);
    snprintf(out + length, size - (size_t)length, "INSERT INTO meta VALUES ('format_version', %d), ('complete', 1);",
             JOB_FORMAT);
}

/* Rows of the file of a job; the first byte says whether its columns have types, the last one selects a command. */
static void
job_run(const uint8_t *data, size_t size, bool every)
{
    uint8_t choice = size > 0 ? data[size - 1] : 0;
    char schema[16384];

    job_write_schema(size > 1 && (data[0] & 1) != 0, schema, sizeof(schema));
    fuzz_write_rows(fuzz_in, schema, job_tables, JOB_TABLE_NAMES, size > 1 ? data + 1 : data, size > 1 ? size - 2 : 0);
    for (size_t i = 0; i < JOB_COMMANDS; i++) {
        if (every || choice % JOB_COMMANDS == i)
            fuzz_command(job_commands[i]);
    }
    fuzz_clear();
}

/* A file that a trace names as a module: its build ids, and the functions at addresses in it and past its ends. */
static void
elf_run(const uint8_t *data, size_t size, bool every)
{
    char build_id[TIDEI_BUILD_ID_TEXT], alternate[TIDEI_BUILD_ID_TEXT];
    struct tidei_elf *elf;
    void *file;

    fuzz_write(fuzz_in, data, size);
    elf = tidei_elf_open(fuzz_in);
    if (elf != NULL) {
        tidei_elf_build_id(elf, build_id);
        tidei_elf_alternate_id(elf, alternate);
        if (strlen(build_id) >= TIDEI_BUILD_ID_TEXT || strlen(alternate) >= TIDEI_BUILD_ID_TEXT)
            abort();
        tidei_elf_close(elf);
        file = tidei_elf_reader.open(fuzz_in, build_id, 0x10000);
        if (file == NULL || tidei_elf_reader.open(fuzz_in, "none", 0x10000) != NULL)
            abort();
        for (uint64_t address = 0; address < (every ? 0x20000 : 0x14000); address += every ? 64 : 0x1000) {
            struct tidei_symbol symbol = { .function = "", .file = "" };

            tidei_elf_reader.find(file, address - 0x100, &symbol);
            if (strlen(symbol.function) > TIDEI_ELF_NAME_MOST)
                abort();
        }
        tidei_elf_reader.close(file);
    }
    fuzz_clear();
}

const struct fuzz_target fuzz_targets[FUZZ_TARGETS] = {
    { "trace", trace_run },     { "rmm", rmm_run }, { "nsys", nsys_run },
    { "pytorch", pytorch_run }, { "elf", elf_run }, { "job", job_run },
};
