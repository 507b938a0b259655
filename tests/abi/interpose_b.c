/* What interpose_a.c wraps. */
#include <stddef.h>

#define FUNCTION(name, value)                                                                      \
    int name(void);                                                                                \
    int name(void)                                                                                 \
    {                                                                                              \
        return value;                                                                              \
    }
FUNCTION(cudnnCreate, 1)
FUNCTION(cublasCreate_v2, 2)
FUNCTION(cuFoo, 3)
FUNCTION(curl_easy_init, 4)
FUNCTION(cuvidCreateDecoder, 5)
FUNCTION(NvEncodeAPICreateInstance, 6)
FUNCTION(nvmlSomethingElse, 7)
FUNCTION(cudaX, 8)

__attribute__((weak)) void *ompt_start_tool(unsigned version, const char *runtime);
void *ompt_start_tool(unsigned version, const char *runtime)
{
    (void)version;
    return (void *)runtime;
}
