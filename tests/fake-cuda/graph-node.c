/* Nodes that a program adds to a graph by itself: those of memory, and empty ones. They run in the order of adding. */
#include "tests/fake-cuda/graph.h"

static CUresult
do_cuGraphCreate(CUgraph *out, unsigned int flags)
{
    if (out == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *out = fake_graph_new();
    return CUDA_SUCCESS;
}

FAKE_API(10000, cuGraphCreate, (CUgraph * out, unsigned int flags), (out, flags))

static bool
graph_node_is_in(CUgraph graph, CUgraphNode node)
{
    for (CUgraphNode known = graph->first; known != NULL; known = known->next) {
        if (known == node)
            return true;
    }
    return false;
}

static CUresult
graph_node_check(const CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies, size_t count)
{
    if (out == NULL || graph == NULL || (dependencies == NULL && count > 0))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        if (!graph_node_is_in(graph, dependencies[i]))
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

static CUresult
do_cuGraphAddEmptyNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies, size_t count)
{
    CUresult result = graph_node_check(out, graph, dependencies, count);

    if (result == CUDA_SUCCESS)
        *out = fake_graph_add(graph, CU_GRAPH_NODE_TYPE_EMPTY);
    return result;
}

FAKE_API(10000, cuGraphAddEmptyNode, (CUgraphNode * out, CUgraph graph, const CUgraphNode *dependencies, size_t count),
         (out, graph, dependencies, count))

static CUresult
do_cuGraphAddMemAllocNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                          CUDA_MEM_ALLOC_NODE_PARAMS *parameters)
{
    struct fake_graph_memory *memory;
    const CUmemLocation *location;
    CUcontext context;
    CUresult result = graph_node_check(out, graph, dependencies, count);

    if (result != CUDA_SUCCESS)
        return result;
    if (parameters == NULL || parameters->bytesize == 0 ||
        parameters->poolProps.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
        parameters->poolProps.handleTypes != CU_MEM_HANDLE_TYPE_NONE)
        return CUDA_ERROR_INVALID_VALUE;
    location = &parameters->poolProps.location;
    if (location->type != CU_MEM_LOCATION_TYPE_DEVICE || !fake_device_is(location->id))
        return CUDA_ERROR_INVALID_VALUE;
    if (fake_context_current(&context) != CUDA_SUCCESS)
        context = NULL;
    memory = fake_graph_memory_new(context, location->id, parameters->bytesize);
    if (memory == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    parameters->dptr = memory->address;
    memory->parameters = *parameters;
    *out = fake_graph_add(graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
    (*out)->memory = memory;
    return CUDA_SUCCESS;
}

FAKE_API(11040, cuGraphAddMemAllocNode,
         (CUgraphNode * out, CUgraph graph, const CUgraphNode *dependencies, size_t count,
          CUDA_MEM_ALLOC_NODE_PARAMS *parameters),
         (out, graph, dependencies, count, parameters))

CUgraphNode
fake_graph_add_free(CUgraph graph, CUdeviceptr address)
{
    struct fake_graph_memory *memory = fake_graph_memory_at(address);
    CUgraphNode freeing;

    for (CUgraphNode node = graph->first; node != NULL; node = node->next) {
        if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && node->memory == memory && memory != NULL &&
            !memory->freed_inside) {
            memory->freed_inside = true;
            freeing = fake_graph_add(graph, CU_GRAPH_NODE_TYPE_MEM_FREE);
            freeing->memory = memory;
            return freeing;
        }
    }
    return NULL;
}

static CUresult
do_cuGraphAddMemFreeNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                         CUdeviceptr address)
{
    CUresult result = graph_node_check(out, graph, dependencies, count);

    if (result != CUDA_SUCCESS)
        return result;
    *out = fake_graph_add_free(graph, address);
    return *out != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

FAKE_API(11040, cuGraphAddMemFreeNode,
         (CUgraphNode * out, CUgraph graph, const CUgraphNode *dependencies, size_t count, CUdeviceptr address),
         (out, graph, dependencies, count, address))

/* Of all types the two of memory, and empty nodes. */
static CUresult
graph_node_add(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies, size_t count,
               CUgraphNodeParams *parameters)
{
    CUDA_MEM_ALLOC_NODE_PARAMS allocation;
    CUresult result;

    if (parameters == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    switch ((int)parameters->type) {
    case CU_GRAPH_NODE_TYPE_EMPTY:
        return do_cuGraphAddEmptyNode(out, graph, dependencies, count);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return do_cuGraphAddMemFreeNode(out, graph, dependencies, count, parameters->free.dptr);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        allocation = (CUDA_MEM_ALLOC_NODE_PARAMS){ .poolProps = parameters->alloc.poolProps,
                                                   .accessDescs = parameters->alloc.accessDescs,
                                                   .accessDescCount = parameters->alloc.accessDescCount,
                                                   .bytesize = parameters->alloc.bytesize };
        result = do_cuGraphAddMemAllocNode(out, graph, dependencies, count, &allocation);
        if (result == CUDA_SUCCESS)
            parameters->alloc.dptr = allocation.dptr;
        return result;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

static CUresult
do_cuGraphAddNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies, const CUgraphEdgeData *edges,
                  size_t count, CUgraphNodeParams *parameters)
{
    (void)edges;
    return graph_node_add(out, graph, dependencies, count, parameters);
}

FAKE_API(12030, cuGraphAddNode,
         (CUgraphNode * out, CUgraph graph, const CUgraphNode *dependencies, const CUgraphEdgeData *edges, size_t count,
          CUgraphNodeParams *parameters),
         (out, graph, dependencies, edges, count, parameters))

static CUresult
do_cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *out)
{
    if (node == NULL || out == NULL || node->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        return CUDA_ERROR_INVALID_VALUE;
    *out = node->memory->parameters;
    return CUDA_SUCCESS;
}

FAKE_API(11040, cuGraphMemAllocNodeGetParams, (CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *out), (node, out))

static CUresult
do_cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *out)
{
    if (node == NULL || out == NULL || node->type != CU_GRAPH_NODE_TYPE_MEM_FREE)
        return CUDA_ERROR_INVALID_VALUE;
    *out = node->memory->address;
    return CUDA_SUCCESS;
}

FAKE_API(11040, cuGraphMemFreeNodeGetParams, (CUgraphNode node, CUdeviceptr *out), (node, out))
