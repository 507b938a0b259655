/* Whether NVIDIA's driver works, by libcuda.so.1. */
#include "gpu/inventory.h"

#include "gpu/subprocess.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CUDA_LIMIT_MS 60000

struct cuda_answer {
    bool loaded;
    int version; /* 1000 * major + 10 * minor; 0: not told */
    int init;    /* what cuInit returns */
    bool has_init;
    char where[256], error[256];
};

static void ask_cuda(void *result)
{
    struct cuda_answer *answer = result;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    int (*init)(unsigned), (*version)(int *);
    struct link_map *map = NULL;

    if (!library) {
        snprintf(answer->error, sizeof(answer->error), "%s", dlerror());
        return;
    }
    answer->loaded = true;
    if (!dlinfo(library, RTLD_DI_LINKMAP, &map) && map)
        snprintf(answer->where, sizeof(answer->where), "%s", map->l_name);
    *(void **)&version = dlsym(library, "cuDriverGetVersion");
    *(void **)&init = dlsym(library, "cuInit");
    if (version && version(&answer->version))
        answer->version = 0;
    answer->has_init = init != NULL;
    if (init)
        answer->init = init(0);
}

static const char *init_advice(int result)
{
    switch (result) {
    case 100:
        return "the driver shows no device: check CUDA_VISIBLE_DEVICES and NVIDIA_VISIBLE_DEVICES, "
               "and in a container "
               "that it was "
               "started with the GPU (--gpus, --device nvidia.com/gpu=...)";
    case 304:
        return "the driver cannot reach its devices, or the instance in VGPU_INSTANCE cannot be "
               "opened: check "
               "/dev/nvidia* and "
               "`vgpu ps`";
    case 803:
    case 804:
        return "libcuda.so.1 and the kernel module are of different versions: reboot or reload the "
               "module after an "
               "update, and in a "
               "container drop the compat library";
    case 999:
        return "the driver fails: look at `dmesg | grep -i nvrm` and `nvidia-smi`, then reload the "
               "module or reboot";
    default:
        return "look up the code in the CUDA driver API's CUresult and check `nvidia-smi`";
    }
}

static void __attribute__((format(printf, 3, 4)))
fails(struct driver_finding *finding, const char *advice, const char *detail, ...)
{
    va_list arguments;

    finding->advice = advice;
    va_start(arguments, detail);
    vsnprintf(finding->detail, sizeof(finding->detail), detail, arguments);
    va_end(arguments);
}

static void report_init(const struct cuda_answer *answer, struct driver_finding *finding)
{
    int major = answer->version / 1000, minor = answer->version % 1000 / 10;

    if (!answer->has_init)
        fails(finding, "this is no CUDA driver: remove it from the library path",
              "%s has no cuInit", answer->where);
    else if (answer->init)
        fails(finding, init_advice(answer->init), "%s (CUDA %d.%d): cuInit returns %d",
              answer->where, major, minor, answer->init);
    else {
        finding->works = true;
        snprintf(finding->detail, sizeof(finding->detail), "%s, CUDA %d.%d, cuInit works",
                 answer->where, major, minor);
    }
}

void driver_check(struct driver_finding *ret_finding)
{
    struct cuda_answer answer;
    int signal = 0,
        error = subprocess_run(ask_cuda, &answer, sizeof(answer), CUDA_LIMIT_MS, &signal);

    *ret_finding = (struct driver_finding){0};
    if (error == -ETIMEDOUT)
        fails(ret_finding,
              "look at `dmesg | grep -i nvrm`; a card that has fallen off the bus needs a reboot",
              "cuInit does not return within %d s", CUDA_LIMIT_MS / 1000);
    else if (error == -ECANCELED)
        fails(ret_finding,
              "look at LD_PRELOAD and /etc/ld.so.preload for other libraries that wrap the driver",
              "cuInit crashes with signal %d (%s)", signal, strsignal(signal));
    else if (error)
        fails(ret_finding, "try again", "cannot start a process to ask the driver: %s",
              strerror(-error));
    else if (!answer.loaded)
        fails(
            ret_finding,
            access("/dev/nvidiactl", F_OK)
                ? "install the NVIDIA driver, or start the container with the GPU; without a card "
                  "`vgpu run --sim` works"
                : "the kernel module is there, its libcuda.so.1 is not: install the driver's "
                  "libraries or add their folder to the library path",
            "libcuda.so.1 does not load: %s", answer.error);
    else
        report_init(&answer, ret_finding);
}
