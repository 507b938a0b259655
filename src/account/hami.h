/*
 * What HAMi's monitor reads of a cache file: the first 2008952 bytes, in the layout of HAMi-core's
 * shared region, version 1.2. We write it (limits, devices, what each process holds, that there are
 * launches), so that the monitor's metrics go on to work, and read two words of it, by which the
 * monitor holds launches back or lifts the caps. What counts is the region behind it.
 */
#ifndef VGPU_ACCOUNT_HAMI_H
#define VGPU_ACCOUNT_HAMI_H

#include "account/ledger.h"

/*
 * Keeps the header up to date from now on. The ledger's region must be in a cache file
 * (INSTANCE_CACHE_OFFSET). At exit() the process is no longer shown.
 */
struct hami_options {
    bool ignore_switch;         /* hami_unlimited() is always false */
    uint64_t record_interval_s; /* the time of the last launch is written no more often; 0: 1 s */
};
void hami_mirror(struct vgpu_ledger *ledger, const struct hami_options *options);

/* The ledger is about to go. */
void hami_forget(struct vgpu_ledger *ledger);

/*
 * Writes all of it now: limits, processes without the dead, how busy the devices were in the last
 * second. To be called now and then by whoever is alive, so that what others have left is gone from
 * it. Waits for the region's lock for 100 ms at most.
 */
void hami_refresh(struct vgpu_ledger *ledger);

/*
 * For whoever launches; any thread, lock-free, some nanoseconds. Without a header (NULL, or no
 * cache file) nothing happens and nothing is blocked or unlimited.
 *
 * launch: there is a launch, at `now_s` (CLOCK_REALTIME; may be coarse). Writes only what changes,
 * so at most once a second where the monitor is away. To be called before anything that returns
 * early.
 */
void hami_launch(struct vgpu_ledger *ledger, uint64_t now_s);
/*
 * A word that is HAMI_RECENT while a launch is neither blocked nor news to the monitor, but for the
 * time; without a header, always. So most launches need no more than a look at it, if one in a
 * while goes through hami_launch().
 */
#define HAMI_RECENT 2
const int32_t *hami_word(const struct vgpu_ledger *ledger);
/* Whether there is a header, and so perhaps a monitor. */
bool hami_mirrored(const struct vgpu_ledger *ledger);
/* The monitor holds back the launches of this instance, for one of a higher priority. */
bool hami_blocked(const struct vgpu_ledger *ledger);
/* The monitor has lifted the caps of this instance: it is alone among those of its priority. */
bool hami_unlimited(const struct vgpu_ledger *ledger);

#endif
