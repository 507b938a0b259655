/* The steering thread: what people ask of a running instance. It waits in the region, so that they are obeyed at once.
 */
#include "guard/guard_internal.h"

#include "base/clock.h"
#include "guard/tell.h"

#include <errno.h>
#include <string.h>

#define ROUND_NS NS_PER_S

/* Whether all channels are as they are to be. */
static bool apply(struct guard *guard, bool pause)
{
    bool done = true;

    for (unsigned i = 0; i < VGPU_DEVICES_MAX; i++) {
        struct share *share = atomic_load(&guard->card[i].share);
        int rc;

        if (!share)
            continue;
        rc = share_pause(share, pause);
        done = done && rc == 0;
        if (rc < 0)
            tell_seldom("guard: channels on %s could not be switched at once (%s)", guard->card[i].uuid_text,
                        strerror(-rc));
    }
    return done;
}

void *steer_serve(void *arg)
{
    struct guard *guard = arg;
    bool paused = false, stands = false;
    uint32_t seen = 0;

    while (!atomic_load(&guard->ending)) {
        bool wanted = region_paused(guard->region);

        /* Where the library has the cards' time, nothing is switched, and so nothing stands. */
        if (guard->config.shares && (wanted || wanted != paused)) {
            bool done = apply(guard, wanted);

            if (wanted != stands && (done || !wanted)) {
                region_stand(guard->region, wanted);
                stands = wanted;
            }
        }
        paused = wanted;
        watch_the_watch(guard);
        seen = region_await(guard->region, seen, ROUND_NS);
    }
    return NULL;
}
