/* Names that are not the driver's keep their meaning: linked against interpose_a and interpose_b,
 * in that order. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "loader.h"

#include <pthread.h>

int cudnnCreate(void);
int cublasCreate_v2(void);
int cuFoo(void);
int curl_easy_init(void);
int cuvidCreateDecoder(void);
int NvEncodeAPICreateInstance(void);
int nvmlSomethingElse(void);
int cudaX(void);
void *ompt_start_tool(unsigned version, const char *runtime);

#define THREADS 8

static void *ask_for_open(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2000; i++)
        if (!dlsym(RTLD_NEXT, "open") || dlsym(RTLD_NEXT, "open") != dlsym(RTLD_DEFAULT, "open"))
            return (void *)1;
    return NULL;
}

int main(void)
{
    static const char runtime[] = "runtime";
    pthread_t threads[THREADS];
    void *failed;

    for (int round = 0; round < 2; round++) {
        CHECK(cudnnCreate() == 101, " ");
        CHECK(cublasCreate_v2() == 102, " ");
        CHECK(cuFoo() == 103, " ");
        CHECK(curl_easy_init() == 104, " ");
        CHECK(cuvidCreateDecoder() == 105, " ");
        CHECK(NvEncodeAPICreateInstance() == 106, " ");
        CHECK(nvmlSomethingElse() == 107, " ");
        CHECK(ompt_start_tool(1, runtime) == runtime, " ");
        CHECK(dlsym(RTLD_DEFAULT, "cudaX") == (void *)cudaX, " ");
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, ask_for_open, NULL) == 0, " ");
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &failed);
        CHECK(!failed, "RTLD_NEXT in a thread");
    }
    return 0;
}
