/* A library that takes 1.5 KiB of static TLS, of which a process has little left for dlopen. */
#define STATIC_TLS_BYTES 1536

_Thread_local char __attribute__((tls_model("initial-exec"))) static_tls_taken[STATIC_TLS_BYTES];

char *static_tls_take(void);

char *
static_tls_take(void)
{
    static_tls_taken[STATIC_TLS_BYTES - 1] = 1;
    return static_tls_taken;
}
