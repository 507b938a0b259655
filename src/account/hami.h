/*
 * HAMi's cache file: a header, which HAMi's monitor reads, and behind it the instance's region.
 * The header is HAMi-core's shared region, version 1.2; only hami.c knows its layout. vgpu writes
 * limits, devices, what each process holds, and that there are launches, so the monitor's metrics
 * keep working. vgpu reads two words, by which the monitor holds launches back or lifts the caps.
 */
#ifndef VGPU_ACCOUNT_HAMI_H
#define VGPU_ACCOUNT_HAMI_H

#include "account/ledger.h"

/* The cache file, for region_create(). */
extern const struct foreign_format hami_cache;

/*
 * Keeps the header up to date from now on. The ledger's region must be in a cache file. From exit()
 * on the process is not shown.
 */
struct hami_options {
    bool ignore_switch;         /* hami_unlimited() is always false */
    uint64_t record_interval_s; /* least time between two reports of a launch; 0: 1 s */
};
void hami_mirror(struct vgpu_ledger *ledger, const struct hami_options *options);

/* Call it before the ledger is freed. */
void hami_forget(struct vgpu_ledger *ledger);

/*
 * Writes the whole header: limits, live processes, use of the devices in the last second. Call it
 * now and then, to remove what dead processes have left. Waits for the region's lock for 100 ms at
 * most.
 */
void hami_refresh(struct vgpu_ledger *ledger);

/*
 * For each launch; any thread, lock-free, some nanoseconds. Without a header (NULL, or no cache
 * file) nothing happens, and nothing is blocked or unlimited.
 *
 * hami_launch() reports a launch at `now_s` (CLOCK_REALTIME; may be coarse). It writes only words
 * that change, at most once a second while the monitor is away. Call it before any early return.
 */
void hami_launch(struct vgpu_ledger *ledger, uint64_t now_s);
/*
 * A word that is HAMI_RECENT as long as launches are not blocked and the monitor knows of them;
 * always without a header. So a launch need only read it, if one in a while calls hami_launch().
 */
#define HAMI_RECENT 2
const int32_t *hami_word(const struct vgpu_ledger *ledger);
/* Whether there is a header, and so perhaps a monitor. */
bool hami_mirrored(const struct vgpu_ledger *ledger);
/*
 * Whether the monitor holds the launches of this instance back, for one of a higher priority.
 * `waited_ns`: for how long the caller has waited. After 10 s one line on stderr says why.
 */
bool hami_blocked(const struct vgpu_ledger *ledger, uint64_t waited_ns);
/* Whether the monitor has lifted the caps of this instance: it is alone among those of its
 * priority. */
bool hami_unlimited(const struct vgpu_ledger *ledger);

#endif
