/* Sends requests that were encoded beforehand, at full speed or at a given rate, and reads the answers.

   load DECK KEY=VALUE...

     address=127.0.0.1:10911   where the server listens; several, joined by commas: connections take them in turn
     connections=2             the deck is dealt out to them in equal parts
     window=128                requests in flight on each; or, instead,
     rate=20000                requests a second, evenly, over all connections: a latency counts from when one was due
     warm_up=0.5 seconds=1     what is measured, and how long before that load begins
     count=0                   so many requests in all, instead of a time
     records=0                 an answer's body has so many records, which are counted; 0: it is not looked at
     weight=1                  messages that an answer without records stands for
     process=1                 in the unique ids of the first connection; the next has the next: no id comes again
     pid=0                     whose CPU time is measured; several, joined by commas
     tls=0                     1: over TLS, whatever the server's certificate

   It prints "measuring" after the warm-up, and one line of JSON at the end. Every answer must be there, be one to a
   request in flight, and have code 0; anything else ends the program with 1 and a sentence on standard error.

   A deck is a row of entries: | places 4 | bytes 4 | places x 4 | a frame of so many bytes |, integers of this machine.
   Frames are filled up to multiples of four bytes. A place is | kind 1 byte, the highest | offset in the frame 3 bytes |:
   what is written there each time a frame leaves.
   Frame number n of the deck has the request number FIRST_OPAQUE + n. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { FIRST_OPAQUE = 100000000, BUFFER = 1 << 20, OUT = 1 << 18, EVENTS = 128, TICK_NS = 100000, STALL_S = 20 };
/* What a place is: the end of a unique id (time 8 digits, counter 4), the process in it (4 digits), a time in ms. */
enum { ID_UPPER = 0, ID_LOWER = 1, PROCESS = 2, BORN = 3 };

typedef struct {
    uint8_t *bytes;
    uint32_t size, place_count;
    const uint32_t *places;
    int64_t since_ns; /* when it left or was due; 0: not in flight */
} Frame;

typedef struct {
    int fd;
    uint32_t number;
    void *tls;
    Frame *frames; /* its part of the deck */
    uint32_t frame_count, next, in_flight;
    uint64_t ids; /* that were given out */
    uint8_t *in, *out;
    size_t in_from, in_to, out_from, out_to;
    uint32_t owed; /* requests that may leave and found no room */
    uint64_t scheduled; /* at a given rate: so many were due until now */
    double due_ns; /* when the next one to leave was or is due */
    int wants_write;
} Connection;

/* ------------------------------------------------------------------------------------------------------ settings */

static char *address = "127.0.0.1:10911", *pids = "0";
static double rate, warm_up_s = 0.5, measured_s = 1;
static uint64_t count_max, first_process = 1, weight = 1;
static uint32_t connection_count = 2, window = 128, record_count;
static int use_tls;

static void fail(const char *format, ...) {
    va_list values;
    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    fputc('\n', stderr);
    exit(1);
}

static void *need(void *memory) {
    if (!memory) fail("no memory");
    return memory;
}

static void read_settings(int count, char **texts) {
    for (int number = 0; number < count; number++) {
        char *value = strchr(texts[number], '=');
        if (!value) fail("not KEY=VALUE: %s", texts[number]);
        *value++ = 0;
        const char *key = texts[number];
        if (!strcmp(key, "address")) address = value;
        else if (!strcmp(key, "pid")) pids = value;
        else if (!strcmp(key, "connections")) connection_count = strtoul(value, NULL, 10);
        else if (!strcmp(key, "window")) window = strtoul(value, NULL, 10);
        else if (!strcmp(key, "rate")) rate = atof(value);
        else if (!strcmp(key, "warm_up")) warm_up_s = atof(value);
        else if (!strcmp(key, "seconds")) measured_s = atof(value);
        else if (!strcmp(key, "count")) count_max = strtoull(value, NULL, 10);
        else if (!strcmp(key, "records")) record_count = strtoul(value, NULL, 10);
        else if (!strcmp(key, "weight")) weight = strtoull(value, NULL, 10);
        else if (!strcmp(key, "process")) first_process = strtoull(value, NULL, 10);
        else if (!strcmp(key, "tls")) use_tls = atoi(value);
        else fail("unknown setting: %s", key);
    }
    if (!connection_count || (!window && rate <= 0)) fail("there is nothing to do");
}

/* --------------------------------------------------------------------------------------------------- times, CPU */

static int64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static double own_cpu_s(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* Of all threads of the processes, in user and kernel mode. */
static double servers_cpu_s(void) {
    long long ticks = 0;
    for (char *text = pids; text; text = strchr(text, ',')) {
        text += *text == ',';
        long pid = strtol(text, NULL, 10);
        char path[64], line[1024];
        snprintf(path, sizeof path, "/proc/%ld/stat", pid);
        FILE *file = pid ? fopen(path, "r") : NULL;
        if (!file) continue;
        size_t size = fread(line, 1, sizeof line - 1, file);
        fclose(file);
        line[size] = 0;
        long long user = 0, system = 0;
        char *fields = strrchr(line, ')'); /* the name before it may hold anything */
        if (fields) sscanf(fields, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lld %lld", &user, &system);
        ticks += user + system;
    }
    return (double)ticks / sysconf(_SC_CLK_TCK);
}

/* Of everything on this machine, the kernel and what the hypervisor took away included. */
static double busy_s(void) {
    unsigned long long user = 0, nice = 0, system = 0, interrupts = 0, soft = 0, stolen = 0;
    FILE *file = fopen("/proc/stat", "r");
    if (!file) return 0;
    const char *format = "cpu %llu %llu %llu %*u %*u %llu %llu %llu"; /* not: idle, waiting for disks */
    if (fscanf(file, format, &user, &nice, &system, &interrupts, &soft, &stolen) != 6) user = 0;
    fclose(file);
    return (double)(user + nice + system + interrupts + soft + stolen) / sysconf(_SC_CLK_TCK);
}

/* ------------------------------------------------------------------------------------------------------ latencies */

/* Microseconds by magnitude, each in 64 steps: every figure is right to 1.6 %. */
static uint64_t latencies[64 * 64], latency_count;

static void note_latency(int64_t ns) {
    uint64_t us = ns > 0 ? (uint64_t)ns / 1000 : 0;
    uint32_t index;
    if (us < 64) index = (uint32_t)us;
    else {
        uint32_t magnitude = 63 - __builtin_clzll(us); /* at least 6 */
        index = (magnitude - 5) * 64 + (uint32_t)(us >> (magnitude - 6)) - 64;
    }
    latencies[index]++;
    latency_count++;
}

static double latency_ms(double quantile) {
    uint64_t below = 0, wanted = (uint64_t)(quantile * (double)latency_count);
    if (wanted >= latency_count && latency_count) wanted = latency_count - 1;
    for (uint32_t index = 0; index < 64 * 64; index++) {
        below += latencies[index];
        if (below > wanted) {
            uint32_t magnitude = index / 64 + 5;
            uint64_t us = index < 64 ? index : (uint64_t)(index % 64 + 64) << (magnitude - 6);
            return (double)us / 1000;
        }
    }
    return 0;
}

/* ------------------------------------------------------------------------------------------------------------ deck */

static Frame *deck;
static uint32_t deck_count;

static void read_deck(const char *path) {
    int file = open(path, O_RDONLY);
    struct stat status;
    if (file < 0 || fstat(file, &status)) fail("%s cannot be read", path);
    uint8_t *data = need(malloc((size_t)status.st_size + 1));
    for (off_t done = 0; done < status.st_size;) {
        ssize_t size = read(file, data + done, (size_t)(status.st_size - done));
        if (size <= 0) fail("%s cannot be read", path);
        done += size;
    }
    close(file);
    deck = need(calloc((size_t)status.st_size / 8 + 1, sizeof *deck));
    for (uint8_t *at = data, *end = data + status.st_size; at < end;) {
        Frame *frame = &deck[deck_count++];
        const uint32_t *head = (const uint32_t *)at;
        frame->place_count = head[0];
        frame->size = head[1];
        frame->places = head + 2;
        frame->bytes = at + 8 + 4 * (size_t)head[0];
        at = frame->bytes + (frame->size + 3) / 4 * 4; /* entries begin at multiples of four */
        if (at > end) fail("%s breaks off", path);
    }
}

static void write_digits(uint8_t *at, uint64_t value, int count, const char *digits) {
    for (int number = count - 1; number >= 0; number--, value >>= 4) at[number] = (uint8_t)digits[value & 15];
}

static char born_text[24];
static int64_t born_at_ns;

/* What is different each time: ids as a client makes them that sends 64 messages a millisecond. */
static void renew(Connection *connection, Frame *frame, int64_t now) {
    if (now - born_at_ns > 1000000) {
        struct timespec time;
        clock_gettime(CLOCK_REALTIME, &time);
        snprintf(born_text, sizeof born_text, "%013lld", (long long)time.tv_sec * 1000 + time.tv_nsec / 1000000);
        born_at_ns = now;
    }
    for (uint32_t number = 0; number < frame->place_count; number++) {
        uint8_t *at = frame->bytes + (frame->places[number] & 0xFFFFFF);
        uint64_t id = ((connection->ids >> 6) << 16 & 0xFFFFFFFF0000ull) | (connection->ids & 0xFFFF);
        switch (frame->places[number] >> 24) {
        case ID_UPPER: write_digits(at, id, 12, "0123456789ABCDEF"); connection->ids++; break;
        case ID_LOWER: write_digits(at, id, 12, "0123456789abcdef"); connection->ids++; break;
        case PROCESS: write_digits(at, first_process + connection->number, 4, "0123456789ABCDEF"); break;
        case BORN: memcpy(at, born_text, 13); break;
        }
    }
}

/* ------------------------------------------------------------------------------------------------------------- TLS */

/* libssl is loaded when it is asked for; its headers are not needed. */
static int (*tls_connect)(void *), (*tls_read)(void *, void *, int), (*tls_write)(void *, const void *, int);
static int (*tls_error)(const void *, int), (*tls_set_fd)(void *, int);
static long (*tls_control)(void *, int, long, void *);
static void *(*tls_new)(void *), *tls_context;
enum { TLS_WANT_READ = 2, TLS_WANT_WRITE = 3, TLS_CONTROL_MODE = 33, TLS_PARTIAL_WRITE = 1, TLS_MOVING_BUFFER = 2 };

static void load_tls(void) {
    void *library = dlopen("libssl.so.3", RTLD_NOW);
    if (!library) library = dlopen("libssl.so.1.1", RTLD_NOW);
    if (!library) fail("there is no libssl");
    void *(*method)(void) = (void *(*)(void))dlsym(library, "TLS_client_method");
    void *(*context_new)(void *) = (void *(*)(void *))dlsym(library, "SSL_CTX_new");
    tls_control = (long (*)(void *, int, long, void *))dlsym(library, "SSL_CTX_ctrl");
    tls_new = (void *(*)(void *))dlsym(library, "SSL_new");
    tls_set_fd = (int (*)(void *, int))dlsym(library, "SSL_set_fd");
    tls_connect = (int (*)(void *))dlsym(library, "SSL_connect");
    tls_read = (int (*)(void *, void *, int))dlsym(library, "SSL_read");
    tls_write = (int (*)(void *, const void *, int))dlsym(library, "SSL_write");
    tls_error = (int (*)(const void *, int))dlsym(library, "SSL_get_error");
    if (!method || !context_new || !tls_control || !tls_new || !tls_set_fd || !tls_connect || !tls_read || !tls_write
        || !tls_error)
        fail("libssl lacks a function");
    tls_context = need(context_new(method()));
    tls_control(tls_context, TLS_CONTROL_MODE, TLS_PARTIAL_WRITE | TLS_MOVING_BUFFER, NULL);
}

/* --------------------------------------------------------------------------------------------------------- sockets */

/* As send and recv: what was done, 0 for a closed connection, -1 if nothing can be done now. */
static ssize_t give(Connection *connection, const uint8_t *data, size_t size) {
    if (connection->tls) {
        int done = tls_write(connection->tls, data, (int)size);
        if (done > 0) return done;
        int error = tls_error(connection->tls, done);
        return error == TLS_WANT_READ || error == TLS_WANT_WRITE ? -1 : 0;
    }
    ssize_t done = send(connection->fd, data, size, MSG_NOSIGNAL);
    if (done < 0 && errno != EAGAIN) return 0;
    return done;
}

static ssize_t take(Connection *connection, uint8_t *data, size_t size) {
    if (connection->tls) {
        int done = tls_read(connection->tls, data, (int)size);
        if (done > 0) return done;
        int error = tls_error(connection->tls, done);
        return error == TLS_WANT_READ || error == TLS_WANT_WRITE ? -1 : 0;
    }
    ssize_t done = recv(connection->fd, data, size, 0);
    if (done < 0 && errno != EAGAIN) return 0;
    return done;
}

static void open_connection(Connection *connection, uint32_t number) {
    uint32_t address_count = 1;
    for (const char *at = address; (at = strchr(at, ',')); at++) address_count++;
    const char *start = address;
    for (uint32_t skipped = number % address_count; skipped; skipped--) start = strchr(start, ',') + 1;
    char host[64];
    const char *colon = strchr(start, ':');
    if (!colon || (size_t)(colon - start) >= sizeof host) fail("not an address: %s", start);
    memcpy(host, start, (size_t)(colon - start));
    host[colon - start] = 0;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(colon + 1))};
    if (inet_pton(AF_INET, host, &to.sin_addr) != 1) fail("not an address: %s", start);
    connection->fd = socket(AF_INET, SOCK_STREAM, 0);
    int yes = 1;
    setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (connect(connection->fd, (struct sockaddr *)&to, sizeof to)) fail("nobody listens on %s", start);
    if (use_tls) {
        connection->tls = need(tls_new(tls_context));
        tls_set_fd(connection->tls, connection->fd);
        if (tls_connect(connection->tls) != 1) fail("TLS with %s did not come about", start);
    }
    fcntl(connection->fd, F_SETFL, O_NONBLOCK);
    connection->in = need(malloc(BUFFER));
    connection->out = need(malloc(OUT));
}

/* --------------------------------------------------------------------------------------------------------- sending */

static Connection *connections;
static int poll_fd;
static double step_ns; /* at a given rate: between two requests of a connection */

static void flush_out(Connection *connection) {
    while (connection->out_from < connection->out_to) {
        size_t size = connection->out_to - connection->out_from;
        ssize_t done = give(connection, connection->out + connection->out_from, size);
        if (!done) fail("the server closed the connection");
        if (done < 0) break;
        connection->out_from += (size_t)done;
    }
    if (connection->out_from == connection->out_to) connection->out_from = connection->out_to = 0;
    int wants_write = connection->out_from < connection->out_to;
    if (wants_write != connection->wants_write) {
        connection->wants_write = wants_write;
        struct epoll_event event = {.events = EPOLLIN | (wants_write ? EPOLLOUT : 0), .data.ptr = connection};
        epoll_ctl(poll_fd, EPOLL_CTL_MOD, connection->fd, &event);
    }
}

/* So many more requests may leave; they do together, in one write, and what finds no room is owed. */
static void issue(Connection *connection, uint32_t count) {
    int64_t now = now_ns();
    connection->owed += count;
    for (uint32_t left = 0; connection->owed && connection->owed != left && !connection->out_to;) {
        left = connection->owed;
        while (connection->owed) {
            Frame *frame = &connection->frames[connection->next];
            if (frame->since_ns || connection->out_to + frame->size > OUT) break;
            renew(connection, frame, now);
            memcpy(connection->out + connection->out_to, frame->bytes, frame->size);
            connection->out_to += frame->size;
            frame->since_ns = rate > 0 ? (int64_t)connection->due_ns : now;
            connection->due_ns += step_ns;
            connection->next = connection->next + 1 == connection->frame_count ? 0 : connection->next + 1;
            connection->in_flight++;
            connection->owed--;
        }
        flush_out(connection);
    }
}

/* --------------------------------------------------------------------------------------------------------- answers */

static uint32_t big_endian(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static long json_number(const uint8_t *header, uint32_t size, const char *name) {
    const uint8_t *found = memmem(header, size, name, strlen(name));
    if (!found) fail("an answer without %s: %.*s", name, (int)(size < 300 ? size : 300), header);
    found += strlen(name);
    while (*found == ' ') found++;
    return strtol((const char *)found, NULL, 10);
}

/* The number of the request that an answer is to; -1 for a request of the server's own, which is passed over. */
static long answered(const uint8_t *answer, uint32_t size) {
    uint32_t word = big_endian(answer), header_size = word & 0xFFFFFF;
    const uint8_t *header = answer + 4;
    if (4 + header_size > size || header_size < 21) fail("an answer with a header of %u bytes", header_size);
    long code, opaque;
    if (word >> 24) {
        code = header[0] << 8 | header[1];
        opaque = (long)big_endian(header + 5);
        if (!(header[12] & 1)) return -1;
    } else if (!memcmp(header, "{\"code\":0,", 10)) {
        code = 0;
        opaque = json_number(header, header_size, "\"opaque\":");
    } else {
        code = json_number(header, header_size, "\"code\":");
        opaque = json_number(header, header_size, "\"opaque\":");
        if (!(json_number(header, header_size, "\"flag\":") & 1)) return -1;
    }
    if (code) fail("refused with code %ld: %.*s", code, (int)(header_size < 400 ? header_size : 400), header);
    if (record_count) {
        uint32_t found = 0, at = 4 + header_size;
        for (; at + 4 <= size; found++) {
            uint32_t record = big_endian(answer + at);
            if (record < 4) fail("a record of %u bytes", record);
            at += record;
        }
        if (at != size || found != record_count) fail("%u records in an answer instead of %u", found, record_count);
    }
    return opaque;
}

static uint32_t receive(Connection *connection, uint64_t *messages) {
    uint32_t count = 0;
    for (;;) {
        ssize_t done = take(connection, connection->in + connection->in_to, BUFFER - connection->in_to);
        if (!done) fail("the server closed the connection");
        if (done < 0) break;
        connection->in_to += (size_t)done;
        int64_t now = now_ns();
        while (connection->in_to - connection->in_from >= 4) {
            uint32_t size = big_endian(connection->in + connection->in_from);
            if (size > BUFFER / 2 - 4) fail("an answer of %u bytes", size);
            if (connection->in_to - connection->in_from < 4 + (size_t)size) break;
            long opaque = answered(connection->in + connection->in_from + 4, size);
            connection->in_from += 4 + (size_t)size;
            if (opaque < 0) continue;
            long number = opaque - FIRST_OPAQUE - (connection->frames - deck);
            if (number < 0 || number >= (long)connection->frame_count || !connection->frames[number].since_ns)
                fail("an answer to no request: %ld", opaque);
            note_latency(now - connection->frames[number].since_ns);
            connection->frames[number].since_ns = 0;
            connection->in_flight--;
            count++;
        }
        if (connection->in_from == connection->in_to) connection->in_from = connection->in_to = 0;
        else if (connection->in_from > BUFFER / 2) {
            memmove(connection->in, connection->in + connection->in_from, connection->in_to - connection->in_from);
            connection->in_to -= connection->in_from;
            connection->in_from = 0;
        }
        if (!connection->tls && done < BUFFER / 8) break; /* most likely there is no more */
    }
    *messages += count * (record_count ? record_count : weight);
    return count;
}

/* ------------------------------------------------------------------------------------------------------------ load */

static struct {
    int64_t at_ns;
    double cpu_s, servers_s, machine_s;
    uint64_t messages;
} begun, ended;

static void look(typeof(begun) *at, uint64_t messages) {
    at->at_ns = now_ns();
    at->servers_s = servers_cpu_s();
    at->machine_s = busy_s();
    at->cpu_s = own_cpu_s();
    at->messages = messages;
}

static uint64_t in_flight(void) {
    uint64_t total = 0;
    for (uint32_t number = 0; number < connection_count; number++)
        total += connections[number].in_flight + connections[number].owed;
    return total;
}

/* One turn of the loop: answers are read, and each lets a request leave, as long as some are `left`. */
static uint64_t turn(uint64_t *messages, uint64_t *left) {
    struct epoll_event events[EVENTS];
    uint64_t total = 0;
    int ready = epoll_wait(poll_fd, events, EVENTS, 100);
    for (int number = 0; number < ready; number++) {
        Connection *connection = events[number].data.ptr;
        if (!connection) continue; /* the timer of a given rate: it only wakes us */
        if (connection->out_to) flush_out(connection);
        uint32_t count = events[number].events & EPOLLIN ? receive(connection, messages) : 0;
        uint32_t more = count < *left ? count : (uint32_t)*left;
        *left -= more;
        total += count;
        if (more || connection->owed) issue(connection, more);
    }
    static int64_t heard_ns;
    if (total || !heard_ns) heard_ns = now_ns();
    else if (!ready && now_ns() - heard_ns > STALL_S * 1000000000LL)
        fail("no answer within %d s to %llu requests", STALL_S, (unsigned long long)in_flight());
    return total;
}

static void begin(uint64_t messages) {
    memset(latencies, 0, sizeof latencies);
    latency_count = 0;
    look(&begun, messages);
    puts("measuring");
    fflush(stdout);
}

/* As many as the server takes: for a time, or so many in all. */
static void run_full(uint64_t *messages) {
    uint64_t left = count_max ? count_max : UINT64_MAX;
    for (uint32_t number = 0; number < connection_count; number++) {
        uint32_t first = window < left ? window : (uint32_t)left;
        left -= first;
        issue(&connections[number], first);
    }
    int64_t warm = now_ns() + (int64_t)(count_max ? 0 : warm_up_s * 1e9);
    while (now_ns() < warm) turn(messages, &left);
    begin(*messages);
    int64_t end = begun.at_ns + (int64_t)(measured_s * 1e9);
    /* On a machine that others keep busy, nothing at all may come in a short time: one answer is the least. */
    while (count_max ? in_flight() > 0 : now_ns() < end || *messages == begun.messages) turn(messages, &left);
    look(&ended, *messages);
}

/* Request n is due at n / rate, whatever became of those before it; the connections take turns. */
static void run_paced(uint64_t *messages) {
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct itimerspec tick = {.it_interval.tv_nsec = TICK_NS, .it_value.tv_nsec = TICK_NS};
    timerfd_settime(timer, 0, &tick, NULL);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = NULL};
    epoll_ctl(poll_fd, EPOLL_CTL_ADD, timer, &event);
    step_ns = 1e9 / rate * connection_count;
    int64_t start = now_ns(), warm = start + (int64_t)(warm_up_s * 1e9), end = INT64_MAX;
    for (uint32_t number = 0; number < connection_count; number++)
        connections[number].due_ns = (double)start + number * step_ns / connection_count;
    uint64_t none = 0;
    for (int64_t now = start; now < end || *messages == begun.messages; now = now_ns()) {
        if (now >= warm && end == INT64_MAX) {
            begin(*messages);
            end = begun.at_ns + (int64_t)(measured_s * 1e9);
        }
        for (uint32_t number = 0; number < connection_count; number++) {
            Connection *connection = &connections[number];
            double passed = (double)(now - start) / step_ns - (double)number / connection_count;
            uint64_t due = passed < 0 ? 0 : (uint64_t)passed + 1;
            if (due > connection->scheduled) issue(connection, (uint32_t)(due - connection->scheduled));
            connection->scheduled = due > connection->scheduled ? due : connection->scheduled;
        }
        turn(messages, &none);
    }
    look(&ended, *messages);
    epoll_ctl(poll_fd, EPOLL_CTL_DEL, timer, NULL);
    close(timer);
}

int main(int argument_count, char **arguments) {
    if (argument_count < 2) fail("load DECK KEY=VALUE...");
    read_settings(argument_count - 2, arguments + 2);
    read_deck(arguments[1]);
    uint32_t share = deck_count / connection_count;
    if (share < (rate > 0 ? 2 : window)) fail("a deck of %u frames is too small", deck_count);
    if (use_tls) load_tls();
    connections = need(calloc(connection_count, sizeof *connections));
    poll_fd = epoll_create1(0);
    for (uint32_t number = 0; number < connection_count; number++) {
        Connection *connection = &connections[number];
        connection->number = number;
        connection->frames = deck + (size_t)number * share;
        connection->frame_count = share;
        open_connection(connection, number);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
        epoll_ctl(poll_fd, EPOLL_CTL_ADD, connection->fd, &event);
    }
    uint64_t messages = 0;
    if (rate > 0) run_paced(&messages);
    else run_full(&messages);
    /* What is in flight is answered too, and has to be good; it is not counted. */
    double p50 = latency_ms(0.5), p99 = latency_ms(0.99), p999 = latency_ms(0.999), most = latency_ms(1);
    for (uint64_t none = 0; in_flight();) turn(&messages, &none);
    printf("{\"count\": %llu, \"seconds\": %.6f, \"server_cpu_s\": %.3f, \"generator_cpu_s\": %.6f, \"busy_s\": %.3f, "
           "\"p50_ms\": %.4f, \"p99_ms\": %.4f, \"p999_ms\": %.4f, \"max_ms\": %.4f, \"total\": %llu}\n",
           (unsigned long long)(ended.messages - begun.messages), (double)(ended.at_ns - begun.at_ns) / 1e9,
           ended.servers_s - begun.servers_s, ended.cpu_s - begun.cpu_s, ended.machine_s - begun.machine_s,
           p50, p99, p999, most, (unsigned long long)messages);
    return 0;
}
