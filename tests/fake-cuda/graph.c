/* Graphs of the fake driver: nodes, instances and launches. A launch runs the nodes in the order of capture. */
#include "tests/fake-cuda/graph.h"

#include <stdlib.h>
#include <string.h>

CUgraph
fake_graph_new(void)
{
    CUgraph graph = calloc(1, sizeof(*graph));

    if (graph == NULL)
        abort();
    graph->alive = true;
    return graph;
}

static void
graph_free_if_done(CUgraph graph)
{
    if (graph->alive || graph->instantiated)
        return;
    while (graph->first != NULL) {
        CUgraphNode node = graph->first;

        graph->first = node->next;
        free(node->argument);
        free(node);
    }
    free(graph);
}

void
fake_graph_drop(CUgraph graph)
{
    graph->alive = false;
    graph_free_if_done(graph);
}

CUgraphNode
fake_graph_add(CUgraph graph, CUgraphNodeType type)
{
    CUgraphNode node = calloc(1, sizeof(*node));
    CUgraphNode *link = &graph->first;

    if (node == NULL)
        abort();
    node->type = type;
    while (*link != NULL)
        link = &(*link)->next;
    *link = node;
    graph->count++;
    graph->allocates = graph->allocates || type == CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    return node;
}

static CUresult
do_cuGraphDestroy(CUgraph graph)
{
    if (graph == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    fake_graph_drop(graph);
    return CUDA_SUCCESS;
}

FAKE_API(10000, cuGraphDestroy, (CUgraph graph), (graph))

static CUresult
do_cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    CUgraphNode node;
    size_t room;

    if (graph == NULL || count == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    room = *count;
    *count = graph->count;
    if (nodes == NULL)
        return CUDA_SUCCESS;
    node = graph->first;
    for (size_t i = 0; i < room; i++) {
        nodes[i] = node;
        if (node != NULL)
            node = node->next;
    }
    if (room < *count)
        *count = room;
    return CUDA_SUCCESS;
}

FAKE_API(10000, cuGraphGetNodes, (CUgraph graph, CUgraphNode *nodes, size_t *count), (graph, nodes, count))

static CUresult
do_cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
    if (node == NULL || type == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *type = node->type;
    return CUDA_SUCCESS;
}

FAKE_API(10000, cuGraphNodeGetType, (CUgraphNode node, CUgraphNodeType *type), (node, type))

/* A graph with allocations has only one instance at a time. */
static CUresult
graph_instantiate(CUgraphExec *out, CUgraph graph, unsigned long long flags)
{
    if (out == NULL || graph == NULL || flags > 15)
        return CUDA_ERROR_INVALID_VALUE;
    if (graph->allocates && graph->instantiated)
        return CUDA_ERROR_NOT_SUPPORTED;
    *out = calloc(1, sizeof(**out));
    if (*out == NULL)
        abort();
    (*out)->graph = graph;
    (*out)->alive = true;
    (*out)->frees_first = (flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0;
    graph->instantiated = true;
    return CUDA_SUCCESS;
}

static CUresult
do_cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph, unsigned long long flags)
{
    return graph_instantiate(out, graph, flags);
}

FAKE_API(11040, cuGraphInstantiateWithFlags, (CUgraphExec * out, CUgraph graph, unsigned long long flags),
         (out, graph, flags))

static CUresult
do_cuGraphExecDestroy(CUgraphExec exec)
{
    if (exec == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    exec->graph->instantiated = false;
    graph_free_if_done(exec->graph);
    free(exec);
    return CUDA_SUCCESS;
}

FAKE_API(10000, cuGraphExecDestroy, (CUgraphExec exec), (exec))

static CUresult
do_cuGraphLaunch(CUgraphExec exec, CUstream handle)
{
    CUstream stream;
    CUresult result = fake_stream_find(handle, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    if (exec == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture != NULL)
        return CUDA_ERROR_NOT_SUPPORTED; /* the fake has no nested graphs */
    result = fake_graph_memory_launch(exec->graph, exec->frees_first);
    for (CUgraphNode node = exec->graph->first; node != NULL && result == CUDA_SUCCESS; node = node->next) {
        if (node->work != NULL)
            result = fake_submit_now(stream, node->work, node->argument, node->bytes);
    }
    return result;
}

FAKE_API_STREAM(10000, cuGraphLaunch, (CUgraphExec exec, CUstream handle), (exec, handle))
