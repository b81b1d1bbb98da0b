/* The plainest load generator that is still correct, to hold ours against: `plain PORT PUBS SUBS MESSAGES SIZE`.
 *
 * Raw sockets, one epoll loop, one thread. Publishers write blocks of about 64 KiB; subscribers read into one
 * buffer and count bytes, nothing more: all frames have the same length, so bytes count messages. It does
 * not even look at them, except at the very end of each stream. Whoever must parse can only be slower.
 *
 * It prints the deliveries and the seconds from the first write to the last delivery.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 64 * 1024, BUFFER = 256 * 1024, STALL_MILLISECONDS = 10000 };

struct client {
    int descriptor;
    long long left;          /* bytes that a publisher has to write, or a subscriber to read */
    long position;           /* of a publisher, in the block */
};

static char buffer[BUFFER];

static void fail(const char *what)
{
    fprintf(stderr, "plain: %s: %s\n", what, errno ? strerror(errno) : "not as expected");
    exit(1);
}

static double now(void)
{
    struct timespec moment;
    clock_gettime(CLOCK_MONOTONIC, &moment);
    return moment.tv_sec + moment.tv_nsec / 1e9;
}

/* CONNECT, perhaps SUB, PING; then read until the PONG is in. Protocol 0 gets no second INFO after it. */
static int open_client(int port, const char *subscribe)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    char text[256];
    long length = 0, got;
    int one = 1, descriptor = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (descriptor < 0 || connect(descriptor, (struct sockaddr *)&address, sizeof address) < 0)
        fail("connect");
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    snprintf(text, sizeof text, "CONNECT {\"verbose\":false,\"protocol\":0}\r\n%sPING\r\n", subscribe);
    if (write(descriptor, text, strlen(text)) != (ssize_t)strlen(text))
        fail("write");
    while (length < BUFFER - 1) {
        got = read(descriptor, buffer + length, BUFFER - 1 - length);
        if (got <= 0)
            fail("handshake");
        buffer[length += got] = 0;
        if (strstr(buffer, "PONG\r\n"))
            break;
    }
    return descriptor;
}

static void watch(int epoll, int descriptor, int index, unsigned events)
{
    struct epoll_event event = {.events = events, .data.u32 = index};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) < 0)
        fail("epoll_ctl");
}

int main(int count, char **words)
{
    if (count != 6) {
        fprintf(stderr, "usage: plain PORT PUBS SUBS MESSAGES SIZE\n");
        return 2;
    }
    int port = atoi(words[1]), pubs = atoi(words[2]), subs = atoi(words[3]), size = atoi(words[5]);
    long long messages = atoll(words[4]);
    if (port < 1 || pubs < 1 || subs < 1 || messages < 1 || size < 0 || size > BLOCK)
        fail("arguments");

    char head[64];
    int head_length = snprintf(head, sizeof head, "PUB bench %d\r\n", size);
    int frame = head_length + size + 2, copies = BLOCK / frame > 0 ? BLOCK / frame : 1;
    long block_length = (long)copies * frame;
    char *block = malloc(block_length);
    struct client *clients = calloc(pubs + subs, sizeof *clients);
    struct epoll_event events[64];
    if (!block || !clients)
        fail("memory");
    for (int copy = 0; copy < copies; copy++) {
        char *at = block + (long)copy * frame;
        memcpy(at, head, head_length);
        memset(at + head_length, 'x', size);
        memcpy(at + head_length + size, "\r\n", 2);
    }

    int epoll = epoll_create1(0), received_frame = snprintf(head, sizeof head, "MSG bench 1 %d\r\n", size) + size + 2;
    for (int index = 0; index < subs; index++) {
        clients[index].descriptor = open_client(port, "SUB bench 1\r\n");
        clients[index].left = messages * received_frame;
        watch(epoll, clients[index].descriptor, index, EPOLLIN);
    }
    for (int index = subs; index < subs + pubs; index++) {
        clients[index].descriptor = open_client(port, "");
        clients[index].left = (messages / pubs + (index - subs < messages % pubs)) * frame;
        watch(epoll, clients[index].descriptor, index, EPOLLOUT);
    }

    int unfinished = subs;
    double started = now();
    while (unfinished) {
        int ready = epoll_wait(epoll, events, 64, STALL_MILLISECONDS);
        if (ready <= 0)
            fail("nothing moves any more");
        for (int place = 0; place < ready; place++) {
            int index = events[place].data.u32;
            struct client *client = &clients[index];
            if (index < subs) {
                ssize_t got = recv(client->descriptor, buffer, BUFFER, MSG_DONTWAIT);
                if (got <= 0 && errno != EAGAIN)
                    fail("read");
                client->left -= got > 0 ? got : 0;
                /* One PING of the server may be among the frames: then the end comes six bytes later. */
                if (got > 0 && client->left <= 0 && buffer[got - 1] == '\n') {
                    if (client->left != 0 && client->left != -6)
                        fail("the end of a stream");
                    unfinished--;
                }
                continue;
            }
            long length = block_length - client->position;
            ssize_t sent = send(client->descriptor, block + client->position,
                                length < client->left ? length : client->left, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (sent < 0 && errno != EAGAIN)
                fail("write");
            if (sent > 0) {
                client->left -= sent;
                client->position = (client->position + sent) % block_length;
            }
            if (client->left == 0)
                epoll_ctl(epoll, EPOLL_CTL_DEL, client->descriptor, NULL);
        }
    }
    printf("%lld %.9f\n", messages * subs, now() - started);
    return 0;
}
