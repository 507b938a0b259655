#include "cli/doctor.h"

#include "cli/run.h"

void doctor_guard(struct doctor *doctor)
{
    static const char *const names[GUARD_FACTS] = {
#define X(id, name) "guard " name,
        GUARD_FACT_LIST(X)
#undef X
    };
    struct guard_finding findings[GUARD_FACTS];

    guard_preflight(run_guard_devices(), run_guard_nvml(), findings);
    for (unsigned fact = 0; fact < GUARD_FACTS; fact++)
        doctor_add(
            doctor, findings[fact].rc ? DOCTOR_WARN : DOCTOR_OK, names[fact],
            findings[fact].rc > 0
                ? "this concerns `vgpu run --guard` only"
                : "without it `vgpu run` preloads the library, and --guard=permissive does so too",
            "%s", findings[fact].text);
}
