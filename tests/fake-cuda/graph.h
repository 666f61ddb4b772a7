/* Graphs of the fake driver: captured work in the order of its capture, and the memory that its nodes allocate. */
#ifndef TESTS_FAKE_CUDA_GRAPH_H
#define TESTS_FAKE_CUDA_GRAPH_H

#include "tests/fake-cuda/memory.h"

struct CUgraphNode_st {
    struct CUgraphNode_st *next;
    CUgraphNodeType type;
    fake_work work;
    void *argument;
    size_t bytes;
    struct fake_graph_memory *memory; /* of an allocation or free node */
};

struct CUgraph_st {
    struct CUgraph_st *next;
    CUgraphNode first;
    size_t count;
    bool alive, instantiated, allocates;
};

struct CUgraphExec_st {
    CUgraph graph;
    bool alive, frees_first;
};

/* The memory of a node: its address is fixed by the capture, and it exists while it is live. */
struct fake_graph_memory {
    struct fake_graph_memory *next;
    uint64_t address, bytes, mapped_bytes, id;
    int device;
    CUcontext context;
    bool live;         /* launched, and not freed since */
    bool freed_inside; /* by a node of the same graph */
    CUDA_MEM_ALLOC_NODE_PARAMS parameters;
};

CUgraph fake_graph_new(void);
void fake_graph_drop(CUgraph graph);
CUgraphNode fake_graph_add(CUgraph graph, CUgraphNodeType type);
/* A node that frees the memory at an address, which a node of the same graph allocates. NULL if there is none. */
CUgraphNode fake_graph_add_free(CUgraph graph, CUdeviceptr address);

/* Returns NULL if there is no room. */
struct fake_graph_memory *fake_graph_memory_new(CUcontext context, int device, size_t bytes);
struct fake_graph_memory *fake_graph_memory_at(uint64_t address);
/* Whether the address is a graph's, also before a launch: captured work may name it. */
bool fake_graph_memory_is(uint64_t address);
bool fake_graph_place(uint64_t address, struct fake_place *out);
CUresult fake_graph_memory_launch(CUgraph graph, bool frees_first);
/* False if it is not live. */
bool fake_graph_memory_free(uint64_t address);

#endif
