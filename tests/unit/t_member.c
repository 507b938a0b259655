/* Members of an instance. Locks count them; what processes say of themselves does not. */
#include "account/member.h"

#include "unit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct stage {
    char folder[200];
    atomic_int step;
};

static struct stage *stage;

static void wait_for_step(int step)
{
    while (atomic_load(&stage->step) < step)
        nap_ms(1);
}

static void go_on(int step)
{
    atomic_store(&stage->step, step);
}

static struct member_counts counts(void)
{
    struct member_counts counts;

    member_count(stage->folder, 100, &counts);
    return counts;
}

static unsigned members(void)
{
    return counts().members;
}

static int set_up(void **state)
{
    int fd;

    (void)state;
    stage = shared_memory(sizeof(*stage));
    snprintf(stage->folder, sizeof(stage->folder), "%s", scratch_path("instanceXXXXXX"));
    if (!mkdtemp(stage->folder))
        return -1;
    fd = open(scratch_path("unused"), O_RDWR | O_CREAT, 0600);
    close(fd);
    /* As `vgpu run` makes it, which has left. */
    fd = member_lead(stage->folder);
    if (fd < 0)
        return -1;
    close(fd);
    return 0;
}

static int joins(void *arg)
{
    (void)arg;
    member_join(stage->folder);
    CHECK(members() == 0); /* without itself */
    go_on(1);
    wait_for_step(2);
    return 0;
}

TEST(a_member_counts_until_it_ends, set_up)
{
    pid_t pid;

    assert_int_equal(members(), 0);
    pid = spawn(joins, NULL);
    wait_for_step(1);
    assert_int_equal(members(), 1);
    assert_int_equal(counts().leaders, 0);
    go_on(2);
    assert_int_equal(finish(pid), 0);
    assert_int_equal(members(), 0);
}

static int closes_all(void *arg)
{
    char path[256];
    int fd;

    (void)arg;
    member_join(stage->folder);
    for (int i = 3; i < 2048; i++)
        close(i);
    snprintf(path, sizeof(path), "%s/" MEMBER_FILE, stage->folder);
    fd = open(path, O_RDWR);
    CHECK(fd >= 0);
    close(fd);
    go_on(1);
    wait_for_step(2);
    return 0;
}

TEST(descriptors_may_be_closed_and_opened_again, set_up)
{
    pid_t pid = spawn(closes_all, NULL);

    wait_for_step(1);
    assert_int_equal(members(), 1);
    go_on(2);
    assert_int_equal(finish(pid), 0);
}

static int forks_and_ends(void *arg)
{
    pid_t child;

    (void)arg;
    member_join(stage->folder);
    child = fork();
    if (child == 0) {
        go_on(1);
        wait_for_step(2);
        _exit(0);
    }
    wait_for_step(1);
    CHECK(members() == 0); /* it counts with its parent */
    return 0;
}

/* A member has a child by `body` and ends; the child stays in its place. */
static void child_stays(int (*body)(void *arg))
{
    pid_t pid = spawn(body, NULL);

    assert_int_equal(finish(pid), 0);
    assert_int_equal(members(), 1);
    go_on(2);
    while (members())
        nap_ms(1);
}

TEST(a_forked_child_stays, set_up)
{
    child_stays(forks_and_ends);
}

static int clones_and_ends(void *arg)
{
    (void)arg;
    member_join(stage->folder);
    if (syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL) == 0) {
        go_on(1);
        wait_for_step(2);
        _exit(0);
    }
    wait_for_step(1);
    return 0;
}

TEST(a_cloned_child_stays, set_up)
{
    child_stays(clones_and_ends);
}

static int says_so_only(void *arg)
{
    (void)arg;
    setenv("VGPU_INSTANCE", stage->folder, 1);
    execlp("sh", "sh", "-c", "read line <&3", (char *)NULL);
    return 1;
}

TEST(text_in_an_environment_counts_for_nothing, set_up)
{
    int hold[2];
    pid_t pid;

    assert_int_equal(pipe(hold), 0);
    assert_int_equal(dup2(hold[0], 3) == 3 || hold[0] == 3, 1);
    pid = spawn(says_so_only, NULL);
    assert_int_equal(members(), 0);
    assert_int_equal(write(hold[1], "\n", 1), 1);
    assert_int_equal(finish(pid), 0);
    close(hold[0]);
    close(hold[1]);
}

static int leads(void *arg)
{
    (void)arg;
    CHECK(member_lead(stage->folder) >= 0);
    CHECK(counts().leaders == 0);
    go_on(1);
    wait_for_step(2);
    return 0;
}

TEST(a_leader_counts_apart, set_up)
{
    pid_t pid = spawn(leads, NULL);

    wait_for_step(1);
    assert_int_equal(members(), 0);
    assert_int_equal(counts().leaders, 1);
    go_on(2);
    assert_int_equal(finish(pid), 0);
    assert_int_equal(counts().leaders, 0);
}

#define TELLERS 12

static int tells(void *arg)
{
    (void)arg;
    wait_for_step(1);
    return member_first_to_tell(stage->folder);
}

TEST(one_is_the_first_to_tell, set_up)
{
    pid_t pids[TELLERS];
    int firsts = 0;

    for (unsigned i = 0; i < TELLERS; i++)
        pids[i] = spawn(tells, NULL);
    go_on(1);
    for (unsigned i = 0; i < TELLERS; i++)
        firsts += finish(pids[i]);
    assert_int_equal(firsts, 1);
    assert_false(member_first_to_tell(stage->folder));
    assert_false(member_first_to_tell("/nowhere"));
    assert_int_equal(members(), 0);
}

#define MANY 40

static int joins_and_waits(void *arg)
{
    (void)arg;
    member_join(stage->folder);
    atomic_fetch_add(&stage->step, 1);
    wait_for_step(MANY + 1);
    return 0;
}

TEST(many_are_counted_up_to_the_bound, set_up)
{
    struct member_counts bounded;
    pid_t pids[MANY];

    for (unsigned i = 0; i < MANY; i++)
        pids[i] = spawn(joins_and_waits, NULL);
    wait_for_step(MANY);
    assert_int_equal(members(), MANY);
    member_count(stage->folder, 7, &bounded);
    assert_int_equal(bounded.members, 7);
    go_on(MANY + 1);
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(finish(pids[i]), 0);
}

static int locks_all(void *arg)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char path[256];
    int fd;

    (void)arg;
    snprintf(path, sizeof(path), "%s/" MEMBER_FILE, stage->folder);
    fd = open(path, O_RDWR);
    CHECK(fd >= 0 && fcntl(fd, F_SETLK, &lock) == 0);
    go_on(1);
    wait_for_step(2);
    return 0;
}

TEST(a_lock_of_the_whole_file_is_one_user, set_up)
{
    pid_t pid = spawn(locks_all, NULL);

    wait_for_step(1);
    assert_int_equal(members(), 1);
    assert_int_equal(counts().leaders, 1);
    go_on(2);
    assert_int_equal(finish(pid), 0);
}

TEST(what_is_no_plain_file_has_no_members, set_up)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/" MEMBER_FILE, stage->folder);
    unlink(path);
    assert_int_equal(members(), 0);
    member_join(stage->folder); /* and makes none */
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(members(), 0);
    unlink(path);
}
