/* Reads frames and answers each with a constant: what loopback, the kernel and copying cost, without a broker.

   null_server PORT BODY_BYTES RECORDS

   Requests have binary headers; the answer is a binary header of 21 bytes with the request's number in it, fields as long
   as a broker's answer to a send has, and a body: RECORDS records that share BODY_BYTES. Prints "ready" when it listens. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BUFFER = 1 << 20, EVENTS = 128, HEADER = 21, FIELDS = 140, OPAQUE_AT = 13 };

typedef struct {
    int fd;
    uint8_t *in;
    size_t in_size;
    uint8_t *out;
    size_t out_from, out_to, out_size;
    int wants_write;
} Connection;

static uint8_t *answer;
static size_t answer_size;

static uint32_t big_endian(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void put(uint8_t *at, uint32_t value) {
    at[0] = (uint8_t)(value >> 24), at[1] = (uint8_t)(value >> 16), at[2] = (uint8_t)(value >> 8), at[3] = (uint8_t)value;
}

/* | length 4 | word 4 | code 2 | language 1 | version 2 | opaque 4 | flag 4 | remark 4 | fields 4 | ... | body | */
static void make_answer(uint32_t body_bytes, uint32_t records) {
    answer_size = 8 + HEADER + FIELDS + body_bytes;
    answer = calloc(1, answer_size);
    put(answer, (uint32_t)answer_size - 4);
    put(answer + 4, 1u << 24 | (HEADER + FIELDS));
    put(answer + 17, 1);
    put(answer + 25, FIELDS);
    uint8_t *body = answer + 8 + HEADER + FIELDS;
    for (uint32_t number = 0; number < records; number++) put(body + body_bytes / records * number, body_bytes / records);
}

static void flush_out(int poll_fd, Connection *connection) {
    while (connection->out_from < connection->out_to) {
        size_t size = connection->out_to - connection->out_from;
        ssize_t done = send(connection->fd, connection->out + connection->out_from, size, MSG_NOSIGNAL);
        if (done <= 0) break;
        connection->out_from += (size_t)done;
    }
    int wants_write = connection->out_from < connection->out_to;
    if (!wants_write) connection->out_from = connection->out_to = 0;
    if (wants_write != connection->wants_write) {
        connection->wants_write = wants_write;
        struct epoll_event event = {.events = EPOLLIN | (wants_write ? EPOLLOUT : 0), .data.ptr = connection};
        epoll_ctl(poll_fd, EPOLL_CTL_MOD, connection->fd, &event);
    }
}

static int serve(int poll_fd, Connection *connection) {
    ssize_t done = recv(connection->fd, connection->in + connection->in_size, BUFFER - connection->in_size, 0);
    if (done <= 0) return done < 0 && errno == EAGAIN;
    connection->in_size += (size_t)done;
    size_t at = 0;
    while (connection->in_size - at >= 4 && connection->in_size - at >= 4 + (size_t)big_endian(connection->in + at)) {
        if (connection->out_to + answer_size > connection->out_size) {
            connection->out_size = 2 * (connection->out_to + answer_size);
            connection->out = realloc(connection->out, connection->out_size);
        }
        memcpy(connection->out + connection->out_to, answer, answer_size);
        memcpy(connection->out + connection->out_to + OPAQUE_AT, connection->in + at + OPAQUE_AT, 4);
        connection->out_to += answer_size;
        at += 4 + (size_t)big_endian(connection->in + at);
    }
    memmove(connection->in, connection->in + at, connection->in_size - at);
    connection->in_size -= at;
    flush_out(poll_fd, connection);
    return 1;
}

int main(int count, char **arguments) {
    if (count != 4) return 2;
    make_answer((uint32_t)atoi(arguments[2]), (uint32_t)atoi(arguments[3]));
    int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    struct sockaddr_in on = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(arguments[1]))};
    inet_pton(AF_INET, "127.0.0.1", &on.sin_addr);
    if (bind(listener, (struct sockaddr *)&on, sizeof on) || listen(listener, 128)) {
        perror("null_server");
        return 1;
    }
    int poll_fd = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL}, events[EVENTS];
    epoll_ctl(poll_fd, EPOLL_CTL_ADD, listener, &event);
    puts("ready");
    fflush(stdout);
    for (;;) {
        int ready = epoll_wait(poll_fd, events, EVENTS, -1);
        for (int number = 0; number < ready; number++) {
            Connection *connection = events[number].data.ptr;
            if (!connection) {
                connection = calloc(1, sizeof *connection);
                connection->fd = accept(listener, NULL, NULL);
                connection->in = malloc(BUFFER);
                setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
                fcntl(connection->fd, F_SETFL, O_NONBLOCK);
                struct epoll_event added = {.events = EPOLLIN, .data.ptr = connection};
                epoll_ctl(poll_fd, EPOLL_CTL_ADD, connection->fd, &added);
                continue;
            }
            if (events[number].events & EPOLLOUT) flush_out(poll_fd, connection);
            if (events[number].events & (EPOLLIN | EPOLLHUP) && !serve(poll_fd, connection)) {
                close(connection->fd);
                free(connection->in);
                free(connection->out);
                free(connection);
            }
        }
    }
}
