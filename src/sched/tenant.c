#include "sched/tenant.h"

enum tenant_state tenant_state(const struct arena_tenant *tenant, bool active, bool holds,
                               uint64_t now_ns)
{
    if (!atomic_load_explicit(&tenant->id, memory_order_acquire))
        return TENANT_FREE;
    if (!active)
        return TENANT_INACTIVE;
    if (tenant_unscheduled(tenant, now_ns))
        return TENANT_UNSCHEDULED;
    if (holds)
        return TENANT_RUNNING;
    if (tenant_draining(tenant, now_ns))
        return TENANT_DRAINING;
    return tenant_waits(tenant) ? TENANT_WAITING : TENANT_IDLE;
}
