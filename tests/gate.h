/* A layer for tests that calls the test once in the middle of a call, where another thread could intervene. */
#ifndef TESTS_GATE_H
#define TESTS_GATE_H

#include <tidemark/tidemark.h>

typedef void (*gate_visit)(void *context);

/* Each hook is unset before it is called, so it runs once. Set hooks while no other thread uses the resource. */
struct gate {
    struct tide_resource base;
    gate_visit before_allocate; /* before upstream is called */
    gate_visit after_allocate;  /* after upstream has returned */
    gate_visit before_deallocate;
    gate_visit after_deallocate;
    void *context;
    enum tide_status deallocate_status; /* unless TIDE_OK, the next deallocation returns it without calling upstream */
    gate_visit before_order_all;        /* before upstream orders TIDE_STREAM_ALL */
    enum tide_status order_status; /* unless TIDE_OK, every order behind one stream returns it and goes no further */
    enum tide_status order_all_status; /* unless TIDE_OK, an order behind TIDE_STREAM_ALL returns it */
};

/* A new gate over `upstream`, with one reference in base. Takes over the caller's reference to upstream. */
struct gate *gate_create(struct tide_resource *upstream);

#endif
