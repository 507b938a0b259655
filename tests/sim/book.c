#include "book.h"

#include "harness.h"
#include "state.h"

#include <signal.h>
#include <stdarg.h>

#define STEP_NS (2 * MS)

static struct sim_state *book(void)
{
    static struct sim_state *state;

    if (!state && state_open(&state))
        FAIL("the simulator's state can't be opened");
    return state;
}

/* Nobody is buried here, though some may be dead: who sees to that is the driver. */
static void look(struct sim_state *state, int device)
{
    sched_advance_locked(state, device, sim_now_ns());
}

static const struct sim_group *find_group(const struct sim_state *state, const char *name)
{
    for (int i = 0; i < SIM_MAX_GROUPS && state->group[i].name[0]; i++)
        if (!strcmp(state->group[i].name, name))
            return &state->group[i];
    return NULL;
}

static uint64_t busy_locked(const struct sim_state *state, int device, const char *name)
{
    const struct sim_group *group = name ? find_group(state, name) : NULL;

    if (!name)
        return state->device[device].busy_ns;
    return group ? group->busy_ns[device] : 0;
}

uint64_t book_group(int device, const char *group)
{
    struct sim_state *state = book();

    state_lock(state);
    look(state, device);
    uint64_t busy_ns = busy_locked(state, device, group);
    state_unlock(state);
    return busy_ns;
}

uint64_t book_device(int device)
{
    return book_group(device, NULL);
}

static const struct sim_process *find_process(const struct sim_state *state, pid_t pid)
{
    for (int i = 0; i < SIM_MAX_PROCESSES; i++)
        if (state->process[i].life == SIM_LIVE && state->process[i].pid == pid)
            return &state->process[i];
    FAIL("process %d is not in the book", (int)pid);
}

size_t book_kernels(int device, pid_t pid, struct book_kernel *ret_kernels, size_t room)
{
    struct sim_state *state = book();
    size_t count = 0;

    state_lock(state);
    look(state, device);
    const struct sim_queue *queue = &find_process(state, pid)->queue[device];
    room = room < SIM_RING ? room : SIM_RING;
    for (uint64_t i = queue->head < room ? 0 : queue->head - room; i < queue->head; i++) {
        const struct sim_work *work = &queue->ring[i % SIM_RING];
        ret_kernels[count++] =
            (struct book_kernel){work->done_ns - work->duration_ns, work->done_ns};
    }
    state_unlock(state);
    return count;
}

uint64_t book_copied(int device, const char *name, bool to_host)
{
    struct sim_state *state = book();

    state_lock(state);
    const struct sim_group *group = find_group(state, name);
    uint64_t bytes = group ? group->copied[device][to_host ? SIM_TO_HOST : SIM_TO_DEVICE] : 0;
    state_unlock(state);
    return bytes;
}

static bool stopped(pid_t pid)
{
    char path[64], line[512] = "";
    const char *end;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    CHECK(file != NULL && fgets(line, sizeof line, file));
    fclose(file);
    end = strrchr(line, ')');
    return end && end[2] == 'T';
}

void book_stop_process(pid_t pid)
{
    struct sim_state *state = book();

    state_lock(state);
    CHECK(kill(pid, SIGSTOP) == 0);
    while (!stopped(pid))
        sleep_ms(1);
    state_unlock(state);
}

unsigned watch_add(struct watch *watch, int device, const char *group)
{
    CHECK(watch->count < WATCH_MOST);
    watch->who[watch->count].device = device;
    watch->who[watch->count].group = group;
    return watch->count++;
}

static struct watch_look *new_look(struct watch *watch)
{
    if (watch->length == watch->room) {
        watch->room = watch->room ? 2 * watch->room : 1024;
        watch->looks = realloc(watch->looks, watch->room * sizeof *watch->looks);
        CHECK(watch->looks != NULL);
    }
    return &watch->looks[watch->length++];
}

static void watch_look(struct watch *watch)
{
    struct sim_state *state = book();
    struct watch_look *one = new_look(watch);
    uint32_t seen = 0;

    state_lock(state);
    one->time_ns = sim_now_ns();
    for (unsigned i = 0; i < watch->count; i++) {
        int device = watch->who[i].device;
        if (!(seen & 1u << device))
            sched_advance_locked(state, device, one->time_ns);
        seen |= 1u << device;
        one->busy_ns[i] = busy_locked(state, device, watch->who[i].group);
    }
    state_unlock(state);
    if (watch->length > 1 && one->time_ns - one[-1].time_ns > watch->late_ns)
        watch->late_ns = one->time_ns - one[-1].time_ns;
}

void watch_for(struct watch *watch, unsigned ms)
{
    uint64_t end_ns = now_ns() + ms * MS;

    while (now_ns() < end_ns) {
        watch_look(watch);
        sleep_ms(2);
    }
    watch_look(watch);
}

void watch_restart(struct watch *watch)
{
    watch->length = 0;
    watch->late_ns = 0;
    watch_look(watch);
}

void watch_gains(struct watch *watch, unsigned who, uint64_t busy_ns)
{
    uint64_t end_ns = now_ns() + PATIENCE_NS, before_ns;

    watch_look(watch);
    before_ns = watch->looks[watch->length - 1].busy_ns[who];
    while (watch->looks[watch->length - 1].busy_ns[who] < before_ns + busy_ns) {
        if (now_ns() > end_ns)
            FAIL("%s does not get on", watch->who[who].group ? watch->who[who].group : "nobody");
        sleep_ms(2);
        watch_look(watch);
    }
}

void watch_until_busy(struct watch *watch, unsigned who)
{
    watch_gains(watch, who, 1);
}

bool watch_settles(struct watch *watch, unsigned ms)
{
    if (watch->windows && !watch->miss[0]) {
        printf("settled in window %u\n", watch->windows);
        watch->windows = 0;
        return false;
    }
    if (!watch->windows)
        watch->end_ns = now_ns() + PATIENCE_NS;
    else if (now_ns() > watch->end_ns)
        FAIL("in %u windows never: %s", watch->windows, watch->miss);
    watch->windows++;
    watch->miss[0] = '\0';
    watch_restart(watch);
    watch_for(watch, ms);
    return true;
}

void watch_expect(struct watch *watch, bool holds, const char *format, ...)
{
    va_list args;

    if (holds || watch->miss[0])
        return;
    va_start(args, format);
    vsnprintf(watch->miss, sizeof watch->miss, format, args);
    va_end(args);
    printf("not yet: %s\n", watch->miss);
}

void watch_done(struct watch *watch)
{
    free(watch->looks);
    *watch = (struct watch){0};
}

static double share(const struct watch *watch, unsigned who, size_t from, size_t to)
{
    const struct watch_look *a = &watch->looks[from], *b = &watch->looks[to];

    return b->time_ns > a->time_ns
               ? (double)(b->busy_ns[who] - a->busy_ns[who]) / (double)(b->time_ns - a->time_ns)
               : 0;
}

double watch_share(const struct watch *watch, unsigned who)
{
    return share(watch, who, 0, watch->length - 1);
}

uint64_t watch_longest_gap(const struct watch *watch, unsigned who)
{
    uint64_t longest = 0;

    for (size_t i = 0, from = 0; i < watch->length; i++) {
        const struct watch_look *a = &watch->looks[from], *b = &watch->looks[i];
        if (b->busy_ns[who] != a->busy_ns[who])
            from = i;
        else if (b->time_ns - a->time_ns > longest)
            longest = b->time_ns - a->time_ns;
    }
    return longest;
}

uint64_t watch_most(const struct watch *watch, unsigned who, uint64_t window_ns)
{
    uint64_t most = 0;

    for (size_t i = 0, from = 0; i < watch->length; i++) {
        while (watch->looks[i].time_ns - watch->looks[from].time_ns > window_ns)
            from++;
        uint64_t busy = watch->looks[i].busy_ns[who] - watch->looks[from].busy_ns[who];
        most = busy > most ? busy : most;
    }
    return most;
}
