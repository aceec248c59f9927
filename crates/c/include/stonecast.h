/*
 * Stonecast, a durable key-value store in remote memory: the client for C.
 *
 * Printed from the sources of the library by cbindgen. docs/c.md has an introduction and examples.
 *
 *     stonecast_client *client;
 *     stonecast_error *error;
 *     if (stonecast_connect("shm:./stonecast-data/socket", NULL, &client, &error) != STONECAST_STATUS_OK ||
 *         stonecast_put(client, "greeting", 8, "hello", 5, NULL, &error) != STONECAST_STATUS_OK) {
 *         fprintf(stderr, "%s\n", stonecast_error_message(error));
 *         stonecast_error_free(error);
 *     }
 *     stonecast_close(client);
 *
 * Results. Most functions return a status. A status below STONECAST_ERRORS is an outcome, such as a key that is
 * absent. Any other is an error: nothing else is stored than NULL, and `error` gets an object with a message and the
 * effect on the data, which the caller frees. The effect says whether a write that failed was done: an error never
 * hides a write. On every other status, `error` gets NULL. `error` may be NULL itself; what it points to may be
 * uninitialized, and is not freed before it is replaced.
 *
 * Ownership. A function that stores or returns an object gives it to the caller, who ends it once, by the function
 * that its type names. Pointers to const are lent: they live as long as the object that they came from. Every
 * function that ends an object ignores NULL.
 *
 * Arguments. A pointer that is not NULL points to an object of its type that was not ended, to `size` readable bytes
 * (keys and values), to writable memory that no other argument points to (results), or to text that ends with a zero
 * byte. Keys and values are bytes, and may contain zero bytes. A NULL that is not permitted is refused: the call does
 * nothing and returns STONECAST_STATUS_MISUSE.
 *
 * Threads. A client and its iterations belong to the thread that connected. Any other object is used by one thread at
 * a time. Handlers of signals must not call the library, and a thread must not be cancelled inside a call. A signal
 * does not end a call.
 *
 * Defects. No exception or panic leaves a function: a defect of the library is STONECAST_STATUS_DEFECT. Memory that
 * is exhausted ends the program.
 */

#ifndef STONECAST_H
#define STONECAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * The longest key, in bytes. The shortest has 1.
 */
#define STONECAST_KEY_SIZE_MAX 1024

/**
 * The longest value, in bytes. The shortest has 0.
 */
#define STONECAST_VALUE_SIZE_MAX 16777216

/**
 * The first status that is an error. Smaller ones are outcomes, such as a key that is absent, and set no error object.
 */
#define STONECAST_ERRORS 32

/**
 * No time limit, for stonecast_options_operation_timeout.
 */
#define STONECAST_NO_LIMIT UINT64_MAX

/**
 * The result of a call. The numbers do not change between versions; later versions add further ones.
 */
typedef enum stonecast_status {
    /**
     * The call succeeded. A write is durable and visible.
     */
    STONECAST_STATUS_OK = 0,
    /**
     * The key is absent. Nothing was done.
     */
    STONECAST_STATUS_ABSENT = 1,
    /**
     * The condition of a write did not hold. Nothing was done.
     */
    STONECAST_STATUS_CONFLICT = 2,
    /**
     * The iteration is at its end.
     */
    STONECAST_STATUS_END = 3,
    /**
     * The caller's buffer is too small; nothing was copied.
     */
    STONECAST_STATUS_TOO_SMALL = 4,
    /**
     * Some pairs of a call were not stored; the outcome of each pair tells.
     */
    STONECAST_STATUS_PARTLY = 5,
    /**
     * An argument breaks the contract of this header, or the handle belongs to another thread, or to the process
     * before a fork.
     */
    STONECAST_STATUS_MISUSE = 32,
    /**
     * The text is not an address.
     */
    STONECAST_STATUS_ADDRESS = 33,
    /**
     * Something that the connection needs is missing or unusable, such as a key file.
     */
    STONECAST_STATUS_SETUP = 34,
    /**
     * No server accepted the connection.
     */
    STONECAST_STATUS_UNREACHABLE = 35,
    /**
     * The time limit passed without an answer.
     */
    STONECAST_STATUS_TIMED_OUT = 36,
    /**
     * The pool promises less than the program expects.
     */
    STONECAST_STATUS_DURABILITY = 37,
    /**
     * The client is closed.
     */
    STONECAST_STATUS_CLOSED = 38,
    /**
     * The connection has ended. The client can only be closed.
     */
    STONECAST_STATUS_DISCONNECTED = 39,
    /**
     * The server refused the connection.
     */
    STONECAST_STATUS_REFUSED = 40,
    /**
     * The store does not take this key, value or option, such as a key that is too long.
     */
    STONECAST_STATUS_INVALID = 41,
    /**
     * The pool, its index or its file system is full, or its medium failed to allocate space.
     */
    STONECAST_STATUS_NO_SPACE = 42,
    /**
     * The server had no room for a while, though the pool is not full. Try again later.
     */
    STONECAST_STATUS_BUSY = 43,
    /**
     * The write was first sent too long ago: the server has forgotten its outcome.
     */
    STONECAST_STATUS_FORGOTTEN = 44,
    /**
     * The cluster is not known, or does not serve the key now.
     */
    STONECAST_STATUS_CLUSTER = 45,
    /**
     * The store failed in another way, which the message tells.
     */
    STONECAST_STATUS_STORE = 46,
    /**
     * The library has a defect. The client that was used can only be closed.
     */
    STONECAST_STATUS_DEFECT = 47,
} stonecast_status;

/**
 * The effect of a failed call on the data.
 */
typedef enum stonecast_effect {
    /**
     * Nothing was done, and nothing will be.
     */
    STONECAST_EFFECT_NONE = 0,
    /**
     * The operation was done; the failure came after it.
     */
    STONECAST_EFFECT_DONE = 1,
    /**
     * The operation may have been done, or may still be done. Read the key to find out, or repeat a retryable write.
     */
    STONECAST_EFFECT_UNKNOWN = 2,
} stonecast_effect;

/**
 * A connection to a server or a cluster.
 *
 * A client belongs to the thread that connected it: a call of another thread does nothing and returns
 * STONECAST_STATUS_MISUSE. A program with several threads connects in each thread. After a fork, the child connects on
 * its own; its call with a handle of its parent does nothing and returns STONECAST_STATUS_MISUSE.
 */
typedef struct stonecast_client stonecast_client;

/**
 * An iteration over all records. An iteration belongs to the thread of its client.
 */
typedef struct stonecast_iteration stonecast_iteration;

/**
 * An error: a message, a status, and the effect of the failed call on the data.
 *
 * The caller owns the error, and frees it with stonecast_error_free. Any thread may do so.
 */
typedef struct stonecast_error stonecast_error;

/**
 * The options of a connection. An option that is not set has its default.
 *
 * The caller owns the options, and frees them with stonecast_options_free. The options serve any number of
 * connections, by one thread at a time. The functions that set an option return STONECAST_STATUS_MISUSE, and change
 * nothing, if an argument is NULL.
 */
typedef struct stonecast_options stonecast_options;

/**
 * The outcome of each pair of stonecast_multi_put.
 *
 * The caller owns the outcomes. Any thread may read or free them.
 */
typedef struct stonecast_outcomes stonecast_outcomes;

/**
 * A key with its value and version. The record lives until the next call with its iteration.
 */
typedef struct stonecast_record stonecast_record;

/**
 * A value with its version.
 *
 * The caller owns a value of stonecast_get. Any thread may read it, or free it with stonecast_value_free.
 */
typedef struct stonecast_value stonecast_value;

/**
 * The values of several keys, in the order of the keys.
 *
 * The caller owns the values. Any thread may read or free them.
 */
typedef struct stonecast_values stonecast_values;

/**
 * The options of a write in addition to key and value: a condition, the time for which the key is present, and whether
 * the write can be repeated.
 *
 * The caller owns the options, and frees them with stonecast_write_free. The options serve any number of writes, by
 * one thread at a time. The functions that set an option return STONECAST_STATUS_MISUSE, and change nothing, if an
 * argument does not fit.
 */
typedef struct stonecast_write stonecast_write;

/**
 * Bytes that are somewhere else: `size` bytes at `data`, which may be NULL if `size` is 0.
 *
 * Bytes that a function returns live as long as the object that it was asked about.
 */
typedef struct stonecast_bytes {
    /**
     * The first byte.
     */
    const void *data;
    /**
     * The number of bytes.
     */
    size_t size;
} stonecast_bytes;

/**
 * The statistics of a server; on a cluster, those of all nodes that lead shards, added up. Later versions append
 * fields.
 */
typedef struct stonecast_statistics {
    /**
     * Keys present.
     */
    uint64_t keys;
    /**
     * Keys that the index takes before it grows.
     */
    uint64_t index_capacity;
    /**
     * Bytes of the index.
     */
    uint64_t index_bytes;
    /**
     * Bytes of the records of present keys.
     */
    uint64_t live_bytes;
    /**
     * Bytes of the log that are in use.
     */
    uint64_t used_bytes;
    /**
     * Bytes of the whole log.
     */
    uint64_t capacity_bytes;
    /**
     * Connected clients, this one included.
     */
    uint64_t clients;
    /**
     * Openings of the pool.
     */
    uint64_t opening;
    /**
     * Version of the latest write.
     */
    uint64_t version;
    /**
     * Puts done since the server began.
     */
    uint64_t puts;
    /**
     * Deletes done since the server began.
     */
    uint64_t deletes;
    /**
     * Writes refused since the server began.
     */
    uint64_t refused;
    /**
     * Keys that were removed because they had expired, since the server began.
     */
    uint64_t expired;
    /**
     * 1 if acknowledged writes survive a loss of power, 0 if they survive the end of processes alone.
     */
    uint64_t survives_power_loss;
} stonecast_statistics;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The message, in English: what was wrong, and what to do. The message ends with a zero byte and lives as long as the
 * error. NULL for NULL.
 */
const char *stonecast_error_message(const struct stonecast_error *error);

/**
 * The status that the failed call returned. STONECAST_STATUS_OK for NULL.
 */
enum stonecast_status stonecast_error_status(const struct stonecast_error *error);

/**
 * The effect of the failed call on the data. STONECAST_EFFECT_NONE for NULL.
 */
enum stonecast_effect stonecast_error_effect(const struct stonecast_error *error);

/**
 * Whether the error names a write that can be repeated: see stonecast_write_retry. False for NULL.
 */
bool stonecast_error_can_retry(const struct stonecast_error *error);

/**
 * Frees the error. NULL is ignored.
 */
void stonecast_error_free(struct stonecast_error *error);

/**
 * Makes options with all defaults. Never returns NULL.
 */
struct stonecast_options *stonecast_options_new(void);

/**
 * Frees the options. NULL is ignored.
 */
void stonecast_options_free(struct stonecast_options *options);

/**
 * Sets the time in which the server must accept the connection, in milliseconds. 10,000 by default.
 */
enum stonecast_status stonecast_options_connect_timeout(struct stonecast_options *options,
                                                        uint64_t milliseconds);

/**
 * Sets the time limit of a call, in milliseconds; STONECAST_NO_LIMIT for none. 60,000 by default. The outcome of a
 * write that exceeds the limit is unknown.
 */
enum stonecast_status stonecast_options_operation_timeout(struct stonecast_options *options,
                                                          uint64_t milliseconds);

/**
 * Sets the time for which a call polls for its answer before its thread sleeps, in microseconds. 50 by default. A
 * longer time saves wake-ups, about ten microseconds each, and keeps a processor busy.
 */
enum stonecast_status stonecast_options_spin(struct stonecast_options *options,
                                             uint64_t microseconds);

/**
 * Refuses a pool whose acknowledged writes survive the end of processes and not the loss of power.
 */
enum stonecast_status stonecast_options_expect_power(struct stonecast_options *options);

/**
 * Sets whether the client overwrites keys without the server, if the server lets clients do so. True by default.
 */
enum stonecast_status stonecast_options_publishing(struct stonecast_options *options,
                                                   bool publishes);

/**
 * Sets the number of keys whose places a client over RDMA remembers, so that a read of such a key takes one round
 * trip. Each place takes 16 bytes.
 */
enum stonecast_status stonecast_options_remembered_places(struct stonecast_options *options,
                                                          size_t count);

/**
 * Sets the path of the key file for addresses that begin with "verbs:". It is read when the client connects.
 */
enum stonecast_status stonecast_options_keys(struct stonecast_options *options,
                                             const char *path);

/**
 * Sets the RDMA device by its name, in UTF-8, as `rdma link` shows it. The first device by default.
 */
enum stonecast_status stonecast_options_rdma_device(struct stonecast_options *options,
                                                    const char *name);

/**
 * Sets the entry of the RDMA device's table of addresses. By default an entry for RoCE v2.
 */
enum stonecast_status stonecast_options_gid_index(struct stonecast_options *options, uint8_t index);

/**
 * Connects to the server at `url`: "shm:PATH", "verbs:HOST:PORT", or to the cluster "cluster:URL". `options` may be
 * NULL. Stores the client, which the caller owns and ends with stonecast_close, or NULL on failure.
 *
 * Errors: ADDRESS, UNREACHABLE, TIMED_OUT, REFUSED, DURABILITY, SETUP. Nothing is changed.
 */
enum stonecast_status stonecast_connect(const char *url,
                                        const struct stonecast_options *options,
                                        struct stonecast_client **client,
                                        struct stonecast_error **error);

/**
 * Disconnects, and ends the client. NULL is ignored. Open iterations return CLOSED from then on; the caller still ends
 * each with stonecast_entries_close.
 *
 * The call waits for the server at most as long as any other call. In a process that was forked, ends the handle and
 * leaves the connection to the other process. A call of another thread than the client's, or within a call of the
 * client, does nothing and returns STONECAST_STATUS_MISUSE: the client stays open.
 */
enum stonecast_status stonecast_close(struct stonecast_client *client);

/**
 * The bytes of the value. They live as long as the value.
 */
struct stonecast_bytes stonecast_value_bytes(const struct stonecast_value *value);

/**
 * The version: the number of the write that stored the value. Of two versions of one key, the larger one is newer. 0
 * for NULL.
 */
uint64_t stonecast_value_version(const struct stonecast_value *value);

/**
 * The moment from which the key is absent, by the server's time, in milliseconds since the begin of 1970; 0: the key
 * does not expire.
 */
uint64_t stonecast_value_expires_at(const struct stonecast_value *value);

/**
 * Frees the value. NULL is ignored.
 */
void stonecast_value_free(struct stonecast_value *value);

/**
 * The number of keys that were asked for. 0 for NULL.
 */
size_t stonecast_values_count(const struct stonecast_values *values);

/**
 * The value of the key with this index; NULL if the key was absent, or if there is no such index. The value lives as
 * long as the values; do not free it separately.
 */
const struct stonecast_value *stonecast_values_at(const struct stonecast_values *values,
                                                  size_t index);

/**
 * Frees the values. NULL is ignored.
 */
void stonecast_values_free(struct stonecast_values *values);

/**
 * Reads the value of a key of 1 to 1024 bytes. Stores the value, which the caller frees with stonecast_value_free;
 * NULL if the key is absent (ABSENT), or on failure. A read runs no code of the server.
 *
 * Errors: INVALID, TIMED_OUT, DISCONNECTED, CLUSTER, STORE. Their effect is STONECAST_EFFECT_NONE.
 */
enum stonecast_status stonecast_get(const struct stonecast_client *client,
                                    const void *key,
                                    size_t key_size,
                                    struct stonecast_value **value,
                                    struct stonecast_error **error);

/**
 * Reads the value of a key into a buffer of the caller, and makes no object. `size` gets the size of the value, which
 * may be larger than `capacity`: then nothing is copied, and the call returns TOO_SMALL. A value has at most 16 MiB
 * (STONECAST_VALUE_SIZE_MAX). `size` gets 0 if the key is absent (ABSENT), or on failure. `version` may be NULL.
 *
 * Errors: those of stonecast_get.
 */
enum stonecast_status stonecast_get_into(const struct stonecast_client *client,
                                         const void *key,
                                         size_t key_size,
                                         void *buffer,
                                         size_t capacity,
                                         size_t *size,
                                         uint64_t *version,
                                         struct stonecast_error **error);

/**
 * Reads the values of `count` keys, all in flight together. Stores the values in the order of the keys, which the
 * caller frees with stonecast_values_free; NULL on failure. Each value is read as by stonecast_get; together they
 * are no snapshot.
 *
 * Errors: those of stonecast_get.
 */
enum stonecast_status stonecast_multi_get(const struct stonecast_client *client,
                                          const struct stonecast_bytes *keys,
                                          size_t count,
                                          struct stonecast_values **values,
                                          struct stonecast_error **error);

/**
 * Makes options of a write without a condition and without an expiry, which cannot be repeated. Never returns NULL.
 */
struct stonecast_write *stonecast_write_new(void);

/**
 * Frees the options. NULL is ignored.
 */
void stonecast_write_free(struct stonecast_write *write);

/**
 * The write takes effect only if the key is absent at its moment. Replaces another condition.
 */
enum stonecast_status stonecast_write_if_absent(struct stonecast_write *write);

/**
 * The write takes effect only if the key has this version at its moment. Replaces another condition.
 */
enum stonecast_status stonecast_write_if_version(struct stonecast_write *write,
                                                 uint64_t version);

/**
 * The key expires after this time from the write on, in milliseconds, by the server's time.
 */
enum stonecast_status stonecast_write_expires_in(struct stonecast_write *write,
                                                 uint64_t milliseconds);

/**
 * The key expires at this moment, in milliseconds since the begin of 1970, by the server's time. 0 is no moment.
 */
enum stonecast_status stonecast_write_expires_at(struct stonecast_write *write,
                                                 uint64_t milliseconds);

/**
 * Writes with these options can be repeated if their outcome is unknown: see stonecast_write_retry. Takes 8 bytes of
 * each record.
 */
enum stonecast_status stonecast_write_retryable(struct stonecast_write *write);

/**
 * Makes the next write with these options a further attempt at the write whose outcome is unknown by `error`. Key,
 * value and condition must be those of the first attempt; the write takes effect once, whatever the number of
 * attempts, over this or another connection and after a restart of the server.
 *
 * The options then serve one attempt, whatever its outcome. If the outcome is still unknown, the error of that attempt
 * serves the next one. Returns STONECAST_STATUS_MISUSE if the error names no write (stonecast_error_can_retry).
 */
enum stonecast_status stonecast_write_retry(struct stonecast_write *write,
                                            const struct stonecast_error *error);

/**
 * The number of pairs. 0 for NULL.
 */
size_t stonecast_outcomes_count(const struct stonecast_outcomes *outcomes);

/**
 * The version of the pair with this index; 0 if it was not stored, or if there is no such index.
 */
uint64_t stonecast_outcomes_version(const struct stonecast_outcomes *outcomes, size_t index);

/**
 * The error for which the pair with this index was not stored; NULL if it was stored, or if there is no such index.
 * The error lives as long as the outcomes; do not free it separately.
 */
const struct stonecast_error *stonecast_outcomes_error(const struct stonecast_outcomes *outcomes,
                                                       size_t index);

/**
 * Frees the outcomes. NULL is ignored.
 */
void stonecast_outcomes_free(struct stonecast_outcomes *outcomes);

/**
 * Stores a value of up to 16 MiB under a key of 1 to 1024 bytes. The value is durable and visible when the call
 * returns OK. `version` gets the version of the key, and may be NULL. The key does not expire.
 *
 * Errors: INVALID, NO_SPACE, BUSY, TIMED_OUT, DISCONNECTED, CLUSTER, STORE; stonecast_error_effect tells their effect.
 */
enum stonecast_status stonecast_put(const struct stonecast_client *client,
                                    const void *key,
                                    size_t key_size,
                                    const void *value,
                                    size_t value_size,
                                    uint64_t *version,
                                    struct stonecast_error **error);

/**
 * Stores a value with `options`, which may be NULL. `version` may be NULL; it gets the new version (OK), the present
 * version (CONFLICT), or 0 (ABSENT: the condition names a version, and the key is absent).
 *
 * Errors: those of stonecast_put, and FORGOTTEN.
 */
enum stonecast_status stonecast_put_with(const struct stonecast_client *client,
                                         const void *key,
                                         size_t key_size,
                                         const void *value,
                                         size_t value_size,
                                         struct stonecast_write *options,
                                         uint64_t *version,
                                         struct stonecast_error **error);

/**
 * Removes a key. Returns OK if the key was there, otherwise ABSENT. The removal is durable and visible when the call
 * returns.
 *
 * Errors: those of stonecast_put.
 */
enum stonecast_status stonecast_delete(const struct stonecast_client *client,
                                       const void *key,
                                       size_t key_size,
                                       struct stonecast_error **error);

/**
 * Removes a key with `options`, which may be NULL; a lifetime there is ignored. `version` may be NULL; it gets the
 * version of the removal itself (OK), the present version (CONFLICT), or 0 (ABSENT).
 *
 * Errors: those of stonecast_put, and FORGOTTEN.
 */
enum stonecast_status stonecast_delete_with(const struct stonecast_client *client,
                                            const void *key,
                                            size_t key_size,
                                            struct stonecast_write *options,
                                            uint64_t *version,
                                            struct stonecast_error **error);

/**
 * Gives a key the lifetime of `options`, or makes it permanent if `options` have none; the value stays. With a version
 * as the condition, the call does so only if the key has that version. Other options do not fit (MISUSE). `version`
 * may be NULL; it gets the new version (OK), the present version (CONFLICT), or 0 (ABSENT).
 *
 * A crash leaves the key with the old lifetime or with the new one. Errors: those of stonecast_put.
 */
enum stonecast_status stonecast_touch(const struct stonecast_client *client,
                                      const void *key,
                                      size_t key_size,
                                      const struct stonecast_write *options,
                                      uint64_t *version,
                                      struct stonecast_error **error);

/**
 * Stores `count` values, each under the key with the same index, all in flight together. Each is a write of its own:
 * a crash may leave any of them. Stores the outcome of each pair, which the caller frees with
 * stonecast_outcomes_free. Returns OK if all were stored, and PARTLY if some were not. On an error of the whole
 * call, stores NULL, and stonecast_error_effect holds for each pair.
 *
 * Errors: those of stonecast_put.
 */
enum stonecast_status stonecast_multi_put(const struct stonecast_client *client,
                                          const struct stonecast_bytes *keys,
                                          const struct stonecast_bytes *values,
                                          size_t count,
                                          struct stonecast_outcomes **outcomes,
                                          struct stonecast_error **error);

/**
 * Begins an iteration over all records, in the commit order of their present versions; on a cluster, shard by shard,
 * and in that order within a shard. Stores the iteration, which the caller ends with stonecast_entries_close; NULL
 * on failure.
 *
 * The iteration is no snapshot: a key that is present all the time is found once, and a key that is written or deleted
 * meanwhile may or may not be found. The iteration holds 24 bytes for each key. Its begin reads the whole index,
 * without a time limit.
 *
 * Errors: those of stonecast_get.
 */
enum stonecast_status stonecast_entries(const struct stonecast_client *client,
                                        struct stonecast_iteration **entries,
                                        struct stonecast_error **error);

/**
 * Advances to the next record, and stores a pointer to it; NULL at the end (END), or on failure. After an error, the
 * next call tries the same record again.
 *
 * Errors: those of stonecast_get, and CLOSED.
 */
enum stonecast_status stonecast_entries_next(struct stonecast_iteration *entries,
                                             const struct stonecast_record **record,
                                             struct stonecast_error **error);

/**
 * Ends the iteration and its record. NULL is ignored. In a process that was forked, ends nothing. A call of another
 * thread than the client's does nothing and returns STONECAST_STATUS_MISUSE.
 */
enum stonecast_status stonecast_entries_close(struct stonecast_iteration *entries);

/**
 * The key of the record, which lives as long as the record.
 */
struct stonecast_bytes stonecast_record_key(const struct stonecast_record *record);

/**
 * The value of the record, which lives as long as the record.
 */
struct stonecast_bytes stonecast_record_value(const struct stonecast_record *record);

/**
 * The version of the record; see stonecast_value_version. 0 for NULL.
 */
uint64_t stonecast_record_version(const struct stonecast_record *record);

/**
 * The moment from which the key is absent; see stonecast_value_expires_at.
 */
uint64_t stonecast_record_expires_at(const struct stonecast_record *record);

/**
 * Asks the server for its statistics. `size` is sizeof(stonecast_statistics), which tells the library the fields that
 * the program knows. The library fills these fields, and sets a field that it does not know itself to 0.
 *
 * Errors: those of stonecast_get.
 */
enum stonecast_status stonecast_stat(const struct stonecast_client *client,
                                     struct stonecast_statistics *statistics,
                                     size_t size,
                                     struct stonecast_error **error);

/**
 * The version of the library, such as "0.1.0". It ends with a zero byte, and lives as long as the program.
 */
const char *stonecast_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* STONECAST_H */
