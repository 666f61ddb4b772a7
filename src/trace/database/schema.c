/* The tables and views of a trace, format 1. */
#include <stddef.h>

#include <sqlite3.h>

#include "src/trace/database/schema.h"

/* How SQL spells the types, and what stands before a column. */
#define SCHEMA_ID              " INTEGER PRIMARY KEY"
#define SCHEMA_TEXT_ID         " TEXT PRIMARY KEY"
#define SCHEMA_INTEGER         " INTEGER NOT NULL"
#define SCHEMA_INTEGER_OR_NULL " INTEGER"
#define SCHEMA_ADDED           " INTEGER"
#define SCHEMA_TEXT            " TEXT NOT NULL"
#define SCHEMA_TEXT_OR_NULL    " TEXT"
#define SCHEMA_ANY             ""
#define SCHEMA_FIRST           ""
#define SCHEMA_SAME            ", "
#define SCHEMA_LINE            ",\n    "
#define SCHEMA_NAME_FIRST      ""
#define SCHEMA_NAME_SAME       ", "
#define SCHEMA_NAME_LINE       ", "

const char tidei_trace_schema[] =
#define TABLE(table, needed)             "CREATE TABLE " #table "("
#define COLUMN(place, table, name, type) SCHEMA_##place #name SCHEMA_##type
#define END(table, rest)                 rest
#include "src/trace/database/columns.def"
    "CREATE VIEW event AS\n"
    "    SELECT alloc_ns AS ns, 'alloc' AS kind, allocation_id, layer_id, address, size, status,\n"
    "        alloc_duration_ns AS duration_ns, alloc_thread_id AS thread_id, alloc_stream_id AS stream_id\n"
    "    FROM allocation\n"
    "    UNION ALL\n"
    "    SELECT free_ns, 'free', allocation_id, layer_id, address, size, status,\n"
    "        free_duration_ns, free_thread_id, free_stream_id\n"
    "    FROM allocation WHERE free_ns IS NOT NULL\n"
    "    ORDER BY 1, 2, 3;\n"
    "CREATE VIEW live AS SELECT * FROM allocation WHERE free_ns IS NULL AND status = 0;\n"
    "CREATE VIEW failure AS\n"
    "    SELECT allocation.*, status.name AS status_name\n"
    "    FROM allocation LEFT JOIN status USING (status) WHERE status <> 0;\n"
    "CREATE VIEW usage AS\n"
    "    SELECT layer_id, ns, kind, allocation_id,\n"
    "        sum(CASE kind WHEN 'alloc' THEN size ELSE -size END) OVER running AS live_bytes,\n"
    "        sum(CASE kind WHEN 'alloc' THEN 1 ELSE -1 END) OVER running AS live_count\n"
    "    FROM event WHERE status = 0\n"
    "    WINDOW running AS (PARTITION BY layer_id ORDER BY ns, kind, allocation_id\n"
    "        ROWS UNBOUNDED PRECEDING);\n"
    "CREATE VIEW StringIds(id, value) AS\n"
    "    VALUES (1, 'cuMemAllocFromPoolAsync'), (2, 'cuMemAllocFromPoolAsync_ptsz'), (3, 'cuMemAllocAsync'),\n"
    "        (4, 'cuMemAllocAsync_ptsz'), (5, 'cuMemFreeAsync'), (6, 'cuMemFreeAsync_ptsz'), (7, 'cuMemAlloc_v2'),\n"
    "        (8, 'cuMemAllocPitch_v2'), (9, 'cuMemAllocManaged'), (10, 'cuMemFree_v2'), (11, 'cuMemAllocHost_v2'),\n"
    "        (12, 'cuMemHostAlloc'), (13, 'cuMemFreeHost'), (14, 'cuMemCreate'), (15, 'cuMemMap'),\n"
    "        (16, 'cuMemSetAccess'), (17, 'cuMemUnmap'), (18, 'cuMemRelease'), (64, 'cudaMalloc_v3020'),\n"
    "        (65, 'cudaMallocPitch_v3020'), (66, 'cudaMalloc3D_v3020'), (67, 'cudaMallocManaged_v6000'),\n"
    "        (68, 'cudaMallocHost_v3020'), (69, 'cudaHostAlloc_v3020'), (70, 'cudaFree_v3020'),\n"
    "        (71, 'cudaFreeHost_v3020'), (72, 'cudaMallocAsync_v11020'), (73, 'cudaMallocAsync_ptsz_v11020'),\n"
    "        (74, 'cudaMallocFromPoolAsync_v11020'), (75, 'cudaMallocFromPoolAsync_ptsz_v11020'),\n"
    "        (76, 'cudaFreeAsync_v11020'), (77, 'cudaFreeAsync_ptsz_v11020');\n"
    "CREATE VIEW ENUM_NSYS_EVENT_CLASS(id, name, label) AS\n"
    "    VALUES (0, 'TRACE_PROCESS_EVENT_CUDA_RUNTIME', 'CUDA runtime'),\n"
    "        (1, 'TRACE_PROCESS_EVENT_CUDA_DRIVER', 'CUDA driver');\n"
    "CREATE VIEW ENUM_CUDA_MEM_KIND(id, name, label) AS\n"
    "    VALUES (0, 'CUDA_MEMOPR_MEMORY_KIND_PAGEABLE', 'Pageable'), (1, 'CUDA_MEMOPR_MEMORY_KIND_PINNED', 'Pinned'),\n"
    "        (2, 'CUDA_MEMOPR_MEMORY_KIND_DEVICE', 'Device'), (3, 'CUDA_MEMOPR_MEMORY_KIND_ARRAY', 'Array'),\n"
    "        (4, 'CUDA_MEMOPR_MEMORY_KIND_MANAGED', 'Managed'),\n"
    "        (5, 'CUDA_MEMOPR_MEMORY_KIND_DEVICE_STATIC', 'Device Static'),\n"
    "        (6, 'CUDA_MEMOPR_MEMORY_KIND_MANAGED_STATIC', 'Managed Static'),\n"
    "        (7, 'CUDA_MEMOPR_MEMORY_KIND_UNKNOWN', 'Unknown');\n"
    "CREATE VIEW ENUM_CUDA_DEV_MEM_EVENT_OPER(id, name, label) AS\n"
    "    VALUES (0, 'CUDA_DEV_MEM_EVENT_OPR_ALLOCATION', 'Allocation'),\n"
    "        (1, 'CUDA_DEV_MEM_EVENT_OPR_DEALLOCATION', 'Deallocation');\n"
    "CREATE VIEW ENUM_CUDA_MEMPOOL_TYPE(id, name, label) AS\n"
    "    VALUES (1, 'CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL', 'Local'),\n"
    "        (2, 'CUPTI_ACTIVITY_MEMORY_POOL_TYPE_IMPORTED', 'Imported');\n"
    "CREATE VIEW ENUM_CUDA_MEMPOOL_OPER(id, name, label) AS\n"
    "    VALUES (1, 'CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_CREATED', 'Created'),\n"
    "        (2, 'CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_DESTROYED', 'Destroyed'),\n"
    "        (3, 'CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_TRIMMED', 'Trimmed');\n"
    "CREATE VIEW CUPTI_ACTIVITY_KIND_RUNTIME AS\n"
    "    SELECT start_ns AS start, start_ns + duration_ns AS end,\n"
    "        CASE WHEN function GLOB 'cuda*' THEN 0 ELSE 1 END AS eventClass,\n"
    "        (SELECT value FROM meta WHERE key = 'pid') << 24 | os_tid AS globalTid, correlation AS correlationId,\n"
    "        StringIds.id AS nameId, result AS returnValue, NULL AS callchainId\n"
    "    FROM driver_call LEFT JOIN thread USING (thread_id) LEFT JOIN StringIds ON value = function;\n"
    "CREATE VIEW CUDA_GPU_MEMORY_USAGE_EVENTS AS\n"
    "    SELECT ns AS start, pid << 24 AS globalPid, device AS deviceId, context AS contextId, address, 0 AS pc,\n"
    "        bytes, coalesce((SELECT id FROM ENUM_CUDA_MEM_KIND\n"
    "            WHERE name = 'CUDA_MEMOPR_MEMORY_KIND_' || upper(memory_kind)), 7) AS memKind,\n"
    "        kind = 'release' AS memoryOperationType, NULL AS name, correlation AS correlationId, stream AS streamId,\n"
    "        iif(pool_kind = 'local', pool_address, NULL) AS localMemoryPoolAddress,\n"
    "        pool_release_threshold_bytes AS localMemoryPoolReleaseThreshold, pool_bytes AS localMemoryPoolSize,\n"
    "        pool_used_bytes AS localMemoryPoolUtilizedSize,\n"
    "        iif(pool_kind = 'imported', pool_address, NULL) AS importedMemoryPoolAddress,\n"
    "        pool_pid AS importedMemoryPoolProcessId\n"
    "    FROM device_event WHERE kind IN ('allocation', 'release');\n"
    "CREATE VIEW CUDA_GPU_MEMORY_POOL_EVENTS AS\n"
    "    SELECT ns AS start, pid << 24 AS globalPid, device AS deviceId, pool_address AS address,\n"
    "        CASE kind WHEN 'pool_created' THEN 1 WHEN 'pool_destroyed' THEN 2 ELSE 3 END AS operationType,\n"
    "        iif(pool_kind = 'local', 1, 2) AS poolType, correlation AS correlationId, keep_bytes AS minBytesToKeep,\n"
    "        pool_release_threshold_bytes AS localMemoryPoolReleaseThreshold, pool_bytes AS localMemoryPoolSize,\n"
    "        pool_used_bytes AS localMemoryPoolUtilizedSize\n"
    "    FROM device_event WHERE kind NOT IN ('allocation', 'release');\n";

/* clang-format off */
#define TABLE(table, needed) static const struct tidei_column schema_##table[] = {
#define COLUMN(place, table, name, type) { #name, TIDEI_COLUMN_##type },
#define END(table, rest) };
#include "src/trace/database/columns.def"

const struct tidei_table tidei_tables[TIDEI_TABLES] = {
#define TABLE(table, needed) { #table, schema_##table, TIDEI_##table##_columns, TIDEI_TABLE_##needed, ""
#define COLUMN(place, table, name, type) SCHEMA_NAME_##place #name
#define END(table, rest) },
#include "src/trace/database/columns.def"
};
/* clang-format on */

const struct tidei_table *
tidei_table_find(const char *name)
{
    for (size_t i = 0; i < TIDEI_TABLES; i++) {
        if (sqlite3_stricmp(tidei_tables[i].name, name) == 0)
            return &tidei_tables[i];
    }
    return NULL;
}
