/* Part of exports_test: other instances' memory, memory got around the guard, dma-bufs. */
#include "exports_test.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/*
 * Memory of somebody outside, who is not guarded: he waits at a socket, gives a file that holds
 * some, allows whoever has come to duplicate it, and frees it when he is told so.
 */
static void name_socket(const char *path, struct sockaddr_un *ret_name)
{
    *ret_name = (struct sockaddr_un){.sun_family = AF_UNIX};
    CHECK(strlen(path) < sizeof(ret_name->sun_path));
    strcpy(ret_name->sun_path, path);
}

void outside(const char *path)
{
    struct sockaddr_un name;
    struct rmclient client;
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), socket_fd, fd;
    uint32_t memory, target;

    name_socket(path, &name);
    CHECK_EQUAL(bind(listener, (struct sockaddr *)&name, sizeof(name)), 0);
    attack_open(&client);
    fd = new_file(&client);
    memory = attack_must_alloc(&client, BLOCK);
    CHECK_EQUAL(rmclient_export(&client, fd, memory), 0);
    CHECK_EQUAL(listen(listener, 1), 0);
    socket_fd = accept(listener, NULL, NULL);
    CHECK(socket_fd >= 0);
    attack_send_fd(socket_fd, fd);
    CHECK_EQUAL(read(socket_fd, &target, sizeof(target)), sizeof(target));
    CHECK_EQUAL(rmclient_share(&client, target), 0);
    CHECK_EQUAL(write(socket_fd, (uint32_t[]){client.client, memory}, 8), 8);
    hear(socket_fd);
    close(fd);
    attack_must_free(&client, memory);
    say(socket_fd);
    hear(socket_fd); /* it holds nothing, but lives */
}

static void duplicate(struct rmclient *client, int to, bool strict)
{
    uint32_t from[2], made = 0, all;

    CHECK_EQUAL(write(to, &client->client, sizeof(client->client)), sizeof(client->client));
    CHECK_EQUAL(read(to, from, sizeof(from)), sizeof(from));
    all = attack_must_alloc(client, attack_quota());
    CHECK_EQUAL(rmclient_dup(client, from[0], from[1], &made), strict ? RM_ERR_NO_MEMORY : 0);
    attack_must_free(client, all);
    if (strict)
        CHECK_EQUAL(rmclient_dup(client, from[0], from[1], &made), 0);
    all = 0;
    CHECK_EQUAL(attack_alloc(client, attack_quota() - (strict ? BLOCK : 0) + PAGE, &all),
                RM_ERR_NO_MEMORY);
    attack_must_free(client, attack_must_alloc(client, attack_quota() - (strict ? BLOCK : 0)));
    attack_must_free(client, made);
    attack_must_free(client, attack_must_alloc(client, attack_quota()));
}

void foreign(const char *path, bool strict)
{
    struct sockaddr_un name;
    struct rmclient client;
    int to = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), fd;
    uint64_t room = strict ? attack_quota() - BLOCK : attack_quota();
    uint32_t made = 0, again = 0, all = 0;

    attack_open(&client);
    name_socket(path, &name);
    for (int i = 0; connect(to, (struct sockaddr *)&name, sizeof(name)) < 0; i++) {
        CHECK(i < 1000);
        nap_ms(10);
    }
    fd = attack_receive_fd(to);
    duplicate(&client, to, strict);
    if (strict) {
        all = attack_must_alloc(&client, attack_quota() - BLOCK + PAGE);
        CHECK_EQUAL(rmclient_import(&client, fd, &made), RM_ERR_NO_MEMORY);
        attack_must_free(&client, all);
        CHECK_EQUAL(book(&client, 0).pid_bytes, 0);
    }
    CHECK_EQUAL(rmclient_import(&client, fd, &made), 0);
    for (unsigned round = 0; round < 3; round++) {
        all = 0;
        CHECK_EQUAL(attack_alloc(&client, room + PAGE, &all), RM_ERR_NO_MEMORY);
        all = attack_must_alloc(&client, room);
        nap_ms(AUDIT_MS);
        attack_must_free(&client, all);
        if (round == 0) {
            say(to);
            hear(to);
            close(fd);
        } else if (round == 1) {
            CHECK_EQUAL(rmclient_dup(&client, client.client, made, &again), 0);
            attack_must_free(&client, made);
        }
    }
    CHECK_EQUAL(book(&client, 0).pid_bytes, BLOCK); /* for NVML it is ours now */
    attack_must_free(&client, again);
    check_charged(&client, 0);
    rmclient_close(&client);
    say(to);
}

/* Memory that only a file holds is charged and in nobody's figure: as much got around the guard
 * must not hide behind it. */
void cheat(void)
{
    struct rmclient client;
    uint32_t memory;
    int fd;

    attack_open(&client);
    fd = new_file(&client);
    memory = attack_must_alloc(&client, attack_quota());
    CHECK_EQUAL(rmclient_export(&client, fd, memory), 0);
    attack_must_free(&client, memory);
    attack_around(&client, BLOCK);
    nap_ms(2 * AUDIT_MS);
    close(fd);
}

/* Where the kernel has no dma-bufs, and whose clients they are of. */
void no_dmabuf(unsigned bytes)
{
    struct rmclient client;
    uint32_t memory;
    int card, fd = -1;

    attack_open(&client);
    card = rmclient_open_file(client.dir, "nvidia0");
    CHECK(card >= 0);
    memory = attack_must_alloc(&client, BLOCK);
    CHECK_EQUAL(rmclient_dmabuf(&client, card, bytes, 1, 0, &memory, 1, &fd), RM_ERR_NOT_SUPPORTED);
    CHECK_EQUAL(rmclient_dmabuf(&client, client.ctl, bytes, 1, 0, &memory, 1, &fd), -EINVAL);
    attack_must_free(&client, memory);
    check_charged(&client, 0);
    close(card);
    rmclient_close(&client);
}

/* With fakedma.c in the guard. */
void dmabuf(void)
{
    uint32_t memory[3], foreign_client;
    struct rmclient client;
    int card, fd = -1, copy, before;

    attack_open(&client);
    card = rmclient_open_file(client.dir, "nvidia0");
    CHECK(card >= 0);
    for (unsigned i = 0; i < 3; i++)
        memory[i] = attack_must_alloc(&client, (i + 1) * MIB);
    before = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(before);
    CHECK_EQUAL(rmclient_dmabuf(&client, card, 2608, 3, 0, memory, 2, &fd), 0);
    CHECK_EQUAL(fd, before); /* the lowest that was free, as the driver's would be */
    CHECK_EQUAL(fcntl(fd, F_GETFD), FD_CLOEXEC);
    copy = fd;
    CHECK_EQUAL(rmclient_dmabuf(&client, card, 2608, 3, 2, &memory[2], 1, &copy), 0);
    CHECK_EQUAL(copy, fd);
    copy = client.ctl; /* is none */
    CHECK_EQUAL(rmclient_dmabuf(&client, card, 2608, 3, 0, memory, 1, &copy),
                RM_ERR_INVALID_PARAMETER);
    foreign_client = client.client;
    client.client = 0xc1d0ffff;
    copy = -1;
    CHECK_EQUAL(rmclient_dmabuf(&client, card, 2608, 3, 0, memory, 1, &copy),
                RM_ERR_INSUFFICIENT_PERMISSIONS);
    client.client = foreign_client;
    CHECK_EQUAL(rmclient_dmabuf(&client, card, 2608, 3, 0, (uint32_t[]){0xdead}, 1, &copy),
                RM_ERR_OBJECT_NOT_FOUND);
    for (unsigned i = 0; i < 3; i++)
        attack_must_free(&client, memory[i]);
    check_charged(&client, 6 * MIB);
    copy = dup(fd);
    close(fd);
    nap_ms(AUDIT_MS);
    check_charged(&client, 6 * MIB);
    close(copy);
    check_charged(&client, 0);
    close(card);
    rmclient_close(&client);
}
