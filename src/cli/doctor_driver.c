#include "cli/doctor.h"

#include "base/parse.h"
#include "gpu/inventory.h"

#include <stdio.h>

void doctor_driver(struct doctor *doctor)
{
    struct driver_finding finding;

    driver_check(&finding);
    doctor_add(doctor, finding.works ? DOCTOR_OK : DOCTOR_FAIL, "driver", finding.advice, "%s",
               finding.detail);
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
