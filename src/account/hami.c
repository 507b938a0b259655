#include "account/hami.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/setting.h"
#include "account/registration.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define HAMI_MAGIC       19920718
#define HAMI_MAJOR       1u
#define HAMI_MINOR       2u
#define HAMI_DEVICES     16
#define HAMI_PROCS       1024
#define HAMI_UUID_LEN    96
#define HAMI_SM_NO_LIMIT 100
#define HAMI_UTILIZATION 6 /* decoder, encoder, SM in percent, three unused */
#define UTILIZATION_SM   2
#define HAMI_FILE_BYTES  (sizeof(struct hami_header) + 1) /* as HAMi-core makes it */
#define REFRESH_NS       (100 * NS_PER_MS)

struct hami_memory {
    uint64_t context, module, data, offset, total, unused[3];
};

struct hami_proc {
    int32_t pid;
    int32_t host_pid;
    struct hami_memory used[HAMI_DEVICES];
    uint64_t monitor_used[HAMI_DEVICES];
    uint64_t utilization[HAMI_DEVICES][HAMI_UTILIZATION];
    int32_t status; /* 0: free */
    uint32_t padding;
    uint64_t sequence;
    uint64_t unused[2];
};

struct hami_header {
    _Atomic int32_t magic; /* written last */
    uint32_t major, minor;
    int32_t sm_init_flag;
    uint64_t owner_pid;
    uint8_t semaphore[32];
    uint64_t device_count;
    char uuid[HAMI_DEVICES][HAMI_UUID_LEN];
    uint64_t limit_bytes[HAMI_DEVICES];
    uint64_t sm_limit_percent[HAMI_DEVICES];
    struct hami_proc proc[HAMI_PROCS];
    int32_t proc_count;
    int32_t utilization_switch; /* the monitor writes this and the next one, by plain stores */
    int32_t recent_kernel;
    int32_t priority;
    uint64_t last_kernel_s;
    uint8_t semaphore_postinit[32];
};

_Static_assert(sizeof(struct hami_memory) == 64, "device_memory_t");
_Static_assert(sizeof(struct hami_proc) == 1960, "shrreg_proc_slot_t");
_Static_assert(offsetof(struct hami_proc, used) == 8, "used");
_Static_assert(offsetof(struct hami_proc, monitor_used) == 1032, "monitorused");
_Static_assert(offsetof(struct hami_proc, status) == 1928, "status");
_Static_assert(sizeof(struct hami_header) == 2008952, "shared_region_t");
_Static_assert(offsetof(struct hami_header, device_count) == 56, "device_num");
_Static_assert(offsetof(struct hami_header, uuid) == 64, "uuids");
_Static_assert(offsetof(struct hami_header, limit_bytes) == 1600, "limit");
_Static_assert(offsetof(struct hami_header, sm_limit_percent) == 1728, "sm_limit");
_Static_assert(offsetof(struct hami_header, proc) == 1856, "procs");
_Static_assert(offsetof(struct hami_header, proc_count) == 2008896, "proc_num");
_Static_assert(offsetof(struct hami_header, last_kernel_s) == 2008912, "last_kernel_time");
_Static_assert(HAMI_DEVICES == VGPU_DEVICES_MAX && HAMI_PROCS == VGPU_PROCS_MAX,
               "one slot for each of ours");

/*
 * Whether a region may be put into a file that has none: a file of HAMi's, known by its magic, or
 * by its size if its maker died before it wrote that, or an empty one. Any other file, named by
 * mistake or malice, is not written.
 */
static bool hami_accepts(int fd)
{
    uint32_t head[16] = {0};
    struct stat st;

    if (pread(fd, head, sizeof(head), 0) < 0 || file_stat_fd(fd, &st) < 0)
        return false;
    if (head[0] == HAMI_MAGIC || (head[0] == 0 && st.st_size == HAMI_FILE_BYTES))
        return true;
    for (unsigned i = 0; i < sizeof(head) / sizeof(*head); i++) {
        if (head[i])
            return false;
    }
    return true;
}

/* The region starts on the first page behind the header. */
const struct foreign_format hami_cache = {
    .base_offset = (sizeof(struct hami_header) + 4095) / 4096 * 4096,
    .accepts = hami_accepts,
};

/* GPU_CORE_UTILIZATION_POLICY is `force` for this process: its caps apply whatever the monitor
 * says. */
static atomic_bool switch_ignored;
/* This process's RECORD_KERNEL_INTERVAL, and whether it exits and is not shown any more. */
static _Atomic uint64_t record_interval_s = 1;
static _Atomic(struct vgpu_ledger *) shown;
static atomic_bool leaves;

static struct hami_header *header_of(const struct vgpu_ledger *ledger)
{
    return ledger->region->map;
}

/* The monitor reads while we write: 8-byte stores, so that it reads no torn value. */
static void put(uint64_t *to, uint64_t value)
{
    __atomic_store_n(to, value, __ATOMIC_RELAXED);
}

/* A process's memory on a device, by HAMi's kinds: all that is neither context nor module is
 * data. */
static void write_memory(struct hami_memory *to, const struct slot_vdev *from)
{
    uint64_t context = slot_held(from, VGPU_KIND_CONTEXT),
             module = slot_held(from, VGPU_KIND_MODULE), total = 0;

    for (unsigned kind = 0; kind < VGPU_KINDS; kind++)
        total = add_saturated(total, slot_held(from, kind));
    put(&to->context, context);
    put(&to->module, module);
    put(&to->data, subtract_clamped(total, add_saturated(context, module)));
    put(&to->total, total);
}

static void write_proc(struct hami_proc *to, const struct region_slot *from)
{
    if (!slot_live(from)) {
        __atomic_store_n(&to->status, 0, __ATOMIC_RELEASE);
        return;
    }
    to->pid = from->pid;
    for (unsigned i = 0; i < HAMI_DEVICES; i++)
        write_memory(&to->used[i], &from->vdev[i]);
    __atomic_store_n(&to->status, 1, __ATOMIC_RELEASE);
}

/*
 * The monitor sums the use of a device over the processes of a container. We know the instance's
 * sum, so the first process stands for all.
 */
static void write_utilization(struct hami_header *header, const struct region_layout *layout,
                              unsigned high)
{
    uint64_t now_ns = clock_ns();
    bool told = false;

    for (unsigned i = 0; i < high; i++) {
        bool live = slot_live(&layout->slot[i]);

        for (unsigned device = 0; live && device < HAMI_DEVICES; device++) {
            uint64_t percent = told ? 0
                                    : region_last_second_ns(&layout->vdev[device].compute, now_ns) *
                                          100 / NS_PER_S;

            put(&header->proc[i].utilization[device][UTILIZATION_SM],
                percent < 100 ? percent : 100);
        }
        told = told || live;
    }
}

/* Any process may write these at any time, for all write the same. */
static void write_caps(struct hami_header *header, const struct region_layout *layout)
{
    for (unsigned i = 0; i < HAMI_DEVICES; i++) {
        uint32_t cap_percent =
            atomic_load_explicit(&layout->vdev[i].cap_percent, memory_order_relaxed);

        put(&header->sm_limit_percent[i], cap_percent ? cap_percent : HAMI_SM_NO_LIMIT);
    }
}

/* Under the lock. Devices are numbered from 0, up to the first without a UUID. */
static void write_devices(struct hami_header *header, const struct region_layout *layout)
{
    uint64_t count = 0;

    for (unsigned i = 0; i < HAMI_DEVICES; i++) {
        const struct region_vdev *vdev = &layout->vdev[i];
        size_t length = strnlen(vdev->limit.uuid, VGPU_UUID_LEN - 1);

        put(&header->limit_bytes[i], load_relaxed(&vdev->quota_bytes));
        /* The monitor uses the array as a key: the rest of it is zero. */
        memcpy(header->uuid[i], vdev->limit.uuid, length);
        memset(header->uuid[i] + length, 0, HAMI_UUID_LEN - length);
        if (length && count == i)
            count = i + 1;
    }
    put(&header->device_count, count);
    write_caps(header, layout);
}

/* Under the lock. Words that are written once, and then belong to the monitor or to HAMi. */
static void write_constants(struct hami_header *header)
{
    header->utilization_switch = 1;
    header->recent_kernel = HAMI_RECENT;
    header->priority = (int32_t)setting_number(SETTING_TASK_PRIORITY);
    header->major = HAMI_MAJOR;
    header->minor = HAMI_MINOR;
}

static bool is_ours(const struct hami_header *header)
{
    return atomic_load_explicit(&header->magic, memory_order_acquire) == HAMI_MAGIC &&
           header->major == HAMI_MAJOR && header->minor == HAMI_MINOR;
}

void hami_refresh(struct vgpu_ledger *ledger)
{
    struct region_layout *layout = ledger->region->layout;
    struct hami_header *header = header_of(ledger);
    uint64_t registration = ledger_registration(ledger);
    struct region_hold hold;
    unsigned high;

    /* Figures for display are not worth a long wait. */
    if (ledger_lock(ledger, REFRESH_NS, &hold) < 0)
        return;
    ledger_reap(ledger);
    high = region_slots_high(layout);
    /* The header is of another version, or its writer died: nothing in it is worth keeping. */
    if (!is_ours(header)) {
        atomic_store_explicit(&header->magic, 0, memory_order_release);
        memset(header->proc, 0, sizeof(header->proc));
    }
    write_devices(header, layout);
    for (unsigned i = 0; i < high; i++)
        write_proc(&header->proc[i], &layout->slot[i]);
    write_utilization(header, layout, high);
    if (atomic_load(&leaves) && registration && registration_ours(ledger, registration))
        __atomic_store_n(&header->proc[registration_index(registration)].status, 0,
                         __ATOMIC_RELEASE);
    __atomic_store_n(&header->proc_count, (int32_t)high, __ATOMIC_RELEASE);
    if (!is_ours(header)) {
        write_constants(header);
        atomic_store_explicit(&header->magic, HAMI_MAGIC, memory_order_release);
    }
    region_unlock(ledger->region, &hold);
    store_relaxed(&ledger->mirrored_ns, clock_coarse_ns());
}

/* Writes our own figures at every change; those of others, and the dead, now and then. */
static void changed(struct vgpu_ledger *ledger, unsigned vdev)
{
    KEEP_ERRNO;
    uint64_t registration = ledger_registration(ledger);

    if (vdev < HAMI_DEVICES && registration && registration_ours(ledger, registration))
        write_memory(&header_of(ledger)->proc[registration_index(registration)].used[vdev],
                     &registration_slot(ledger, registration)->vdev[vdev]);
    if (vdev == VGPU_VDEVS || clock_coarse_ns() - load_relaxed(&ledger->mirrored_ns) >= REFRESH_NS)
        hami_refresh(ledger);
}

bool hami_mirrored(const struct vgpu_ledger *ledger)
{
    return ledger && ledger->changed == changed;
}

/* The word recent_kernel: a launch sets it to HAMI_RECENT, and the monitor counts it down. */
const int32_t *hami_word(const struct vgpu_ledger *ledger)
{
    static const int32_t recent = HAMI_RECENT;

    return hami_mirrored(ledger) ? &header_of(ledger)->recent_kernel : &recent;
}

void hami_launch(struct vgpu_ledger *ledger, uint64_t now_s)
{
    struct hami_header *header;
    uint64_t last_s;
    int32_t recent;

    if (!hami_mirrored(ledger))
        return;
    header = header_of(ledger);
    recent = __atomic_load_n(&header->recent_kernel, __ATOMIC_RELAXED);
    /* Not a plain store, for the monitor may have forbidden launches just now. */
    if (recent >= 0 && recent != HAMI_RECENT)
        __atomic_compare_exchange_n(&header->recent_kernel, &recent, HAMI_RECENT, false,
                                    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    last_s = __atomic_load_n(&header->last_kernel_s, __ATOMIC_RELAXED);
    if (last_s <= now_s &&
        now_s - last_s < atomic_load_explicit(&record_interval_s, memory_order_relaxed))
        return;
    put(&header->last_kernel_s, now_s);
    /* A program that only launches reports a new cap this way. */
    write_caps(header, ledger->region->layout);
}

bool hami_blocked(const struct vgpu_ledger *ledger, uint64_t waited_ns)
{
    static atomic_bool told;

    if (!hami_mirrored(ledger) ||
        __atomic_load_n(&header_of(ledger)->recent_kernel, __ATOMIC_RELAXED) >= 0)
        return false;
    if (waited_ns >= 10 * NS_PER_S && !atomic_exchange(&told, true))
        log_warning("launches are held: HAMi's monitor has set recent_kernel to -1 in the cache "
                    "file, 10 s ago or more; they go on when it sets it to 0");
    return true;
}

bool hami_unlimited(const struct vgpu_ledger *ledger)
{
    return hami_mirrored(ledger) && !atomic_load_explicit(&switch_ignored, memory_order_relaxed) &&
           __atomic_load_n(&header_of(ledger)->utilization_switch, __ATOMIC_RELAXED) == 0;
}

/*
 * At exit(): shows this process no more. The region keeps all, for the program's other threads and
 * its exit handlers may still use the GPU. A child of fork has no registration yet, or its own.
 */
static void leave(void)
{
    struct vgpu_ledger *ledger = atomic_load(&shown);
    uint64_t registration;

    fork_check();
    if (!ledger)
        return;
    atomic_store(&leaves, true);
    registration = ledger_registration(ledger);
    if (registration && registration_ours(ledger, registration))
        __atomic_store_n(&header_of(ledger)->proc[registration_index(registration)].status, 0,
                         __ATOMIC_RELEASE);
}

void hami_forget(struct vgpu_ledger *ledger)
{
    atomic_compare_exchange_strong(&shown, &ledger, NULL);
}

void hami_mirror(struct vgpu_ledger *ledger, const struct hami_options *options)
{
    KEEP_ERRNO;
    static atomic_flag registered = ATOMIC_FLAG_INIT;

    atomic_store_explicit(&switch_ignored, options->ignore_switch, memory_order_relaxed);
    atomic_store_explicit(&record_interval_s,
                          options->record_interval_s ? options->record_interval_s : 1,
                          memory_order_relaxed);
    atomic_store(&shown, ledger);
    ledger->changed = changed;
    hami_refresh(ledger);
    if (!atomic_flag_test_and_set(&registered))
        atexit(leave);
}
