/* A library that wraps functions of one that comes after it, as cuDNN, OpenMP and other shims
 * do. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stddef.h>

typedef int forward_fn(void);

static int forward(const char *name)
{
    forward_fn *next = (forward_fn *)dlsym(RTLD_NEXT, name);

    return next && next != (forward_fn *)dlsym(RTLD_DEFAULT, name) ? next() : -1;
}

#define WRAPPER(name)                                                                              \
    int name(void);                                                                                \
    int name(void)                                                                                 \
    {                                                                                              \
        return 100 + forward(#name);                                                               \
    }
WRAPPER(cudnnCreate)
WRAPPER(cublasCreate_v2)
WRAPPER(cuFoo)
WRAPPER(curl_easy_init)
WRAPPER(cuvidCreateDecoder)
WRAPPER(NvEncodeAPICreateInstance)
WRAPPER(nvmlSomethingElse)

/* The tool interface of OpenMP: defined weakly everywhere, and the last one in line finds no
 * next. */
__attribute__((weak)) void *ompt_start_tool(unsigned version, const char *runtime);
void *ompt_start_tool(unsigned version, const char *runtime)
{
    void *(*next)(unsigned, const char *) =
        (void *(*)(unsigned, const char *))dlsym(RTLD_NEXT, "ompt_start_tool");

    return next ? next(version, runtime) : NULL;
}
