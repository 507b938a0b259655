#include "cli/doctor.h"

#include "base/parse.h"
#include "cli/gpus.h"
#include "cli/probe.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
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

static void report_init(struct doctor *doctor, const struct cuda_answer *answer)
{
    if (!answer->has_init)
        doctor_add(doctor, DOCTOR_FAIL, "driver",
                   "this is no CUDA driver: remove it from the library path", "%s has no cuInit",
                   answer->where);
    else if (answer->init)
        doctor_add(doctor, DOCTOR_FAIL, "driver", init_advice(answer->init),
                   "%s (CUDA %d.%d): cuInit returns %d", answer->where, answer->version / 1000,
                   answer->version % 1000 / 10, answer->init);
    else
        doctor_add(doctor, DOCTOR_OK, "driver", NULL, "%s, CUDA %d.%d, cuInit works", answer->where,
                   answer->version / 1000, answer->version % 1000 / 10);
}

void doctor_driver(struct doctor *doctor)
{
    struct cuda_answer answer;
    int signal = 0, error = probe_run(ask_cuda, &answer, sizeof(answer), CUDA_LIMIT_MS, &signal);

    if (error == -ETIMEDOUT)
        doctor_add(
            doctor, DOCTOR_FAIL, "driver",
            "look at `dmesg | grep -i nvrm`; a card that has fallen off the bus needs a reboot",
            "cuInit does not return within %d s", CUDA_LIMIT_MS / 1000);
    else if (error == -ECANCELED)
        doctor_add(
            doctor, DOCTOR_FAIL, "driver",
            "look at LD_PRELOAD and /etc/ld.so.preload for other libraries that wrap the driver",
            "cuInit crashes with signal %d (%s)", signal, strsignal(signal));
    else if (error)
        doctor_add(doctor, DOCTOR_FAIL, "driver", "try again",
                   "cannot start a process to ask the driver: %s", strerror(-error));
    else if (!answer.loaded)
        doctor_add(
            doctor, DOCTOR_FAIL, "driver",
            access("/dev/nvidiactl", F_OK)
                ? "install the NVIDIA driver, or start the container with the GPU; without a card "
                  "`vgpu run --sim` works"
                : "the kernel module is there, its libcuda.so.1 is not: install the driver's "
                  "libraries or add their folder to the library path",
            "libcuda.so.1 does not load: %s", answer.error);
    else
        report_init(doctor, &answer);
}

void doctor_nvml(struct doctor *doctor)
{
    char reason[GPUS_REASON_LEN], size[SIZE_TEXT_BYTES], list[640] = "";
    struct gpus gpus;
    size_t at = 0;
    int error = gpus_list(NULL, &gpus, reason);

    if (error) {
        doctor_add(doctor, DOCTOR_WARN, "NVML",
                   "without it --gpu cannot be used, and memory that no hook sees is not counted: "
                   "install the driver's "
                   "NVML library",
                   "%s", reason);
        return;
    }
    for (unsigned i = 0; i < gpus.count && at < sizeof(list); i++)
        at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%u = %s (%s, %.12s)", i ? ", " : "",
                               i, gpus.gpu[i].name,
                               format_bytes(gpus.gpu[i].total_bytes, size, sizeof(size)),
                               gpus.gpu[i].uuid);
    if (gpus.count)
        doctor_add(doctor, DOCTOR_OK, "NVML", NULL, "driver %s; %s", gpus.driver, list);
    else
        doctor_add(doctor, DOCTOR_WARN, "NVML",
                   "check `nvidia-smi`, and in a container that it was started with the GPU",
                   "driver %s; no device", gpus.driver);
}
