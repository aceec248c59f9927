/* What the header promises about arguments, threads, processes and errors. Prints each promise that is broken. */

#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stonecast.h>

static int broken;
static stonecast_error *error;

/* Checks a promise, and ends the error of the call before. */
static void check(int holds, const char *promise) {
    if (!holds) {
        printf("broken: %s (%s)\n", promise, error == NULL ? "no error" : stonecast_error_message(error));
        broken++;
    }
    stonecast_error_free(error);
    error = NULL;
}

static stonecast_client *connected(const char *url, const stonecast_options *options) {
    stonecast_client *client;
    if (stonecast_connect(url, options, &client, &error) != STONECAST_STATUS_OK) {
        printf("connect: %s\n", stonecast_error_message(error));
        exit(EXIT_FAILURE);
    }
    return client;
}

static void null_is_refused(stonecast_client *client) {
    stonecast_value *value = (stonecast_value *)&broken;
    size_t size = 7;
    check(stonecast_put(NULL, "k", 1, "v", 1, NULL, &error) == STONECAST_STATUS_MISUSE, "no client");
    check(stonecast_put(client, NULL, 1, "v", 1, NULL, &error) == STONECAST_STATUS_MISUSE, "no key");
    check(stonecast_put(client, "k", 1, NULL, 1, NULL, &error) == STONECAST_STATUS_MISUSE, "no value");
    check(stonecast_put(client, "k", (size_t)-1, "v", 1, NULL, &error) == STONECAST_STATUS_MISUSE, "an endless key");
    check(stonecast_get(client, "k", 1, NULL, &error) == STONECAST_STATUS_MISUSE, "no place for a value");
    check(stonecast_get(NULL, "k", 1, &value, &error) == STONECAST_STATUS_MISUSE && value == NULL, "a result is NULL on failure");
    check(stonecast_get_into(client, "k", 1, NULL, 1, &size, NULL, &error) == STONECAST_STATUS_MISUSE && size == 0, "no buffer");
    check(stonecast_connect(NULL, NULL, &client, &error) == STONECAST_STATUS_MISUSE && client == NULL, "no address");
    check(stonecast_connect("redis://host", NULL, &client, NULL) == STONECAST_STATUS_ADDRESS, "nobody asks for the error");
    check(stonecast_options_spin(NULL, 1) == STONECAST_STATUS_MISUSE, "no options");
    check(stonecast_write_expires_at(NULL, 1) == STONECAST_STATUS_MISUSE, "no options of a write");
}

static void null_is_freed(void) {
    stonecast_error_free(NULL);
    stonecast_value_free(NULL);
    stonecast_values_free(NULL);
    stonecast_outcomes_free(NULL);
    stonecast_options_free(NULL);
    stonecast_write_free(NULL);
    check(stonecast_close(NULL) == STONECAST_STATUS_OK, "nothing is closed");
    check(stonecast_entries_close(NULL) == STONECAST_STATUS_OK, "no iteration is closed");
    check(stonecast_value_bytes(NULL).size == 0 && stonecast_error_message(NULL) == NULL, "NULL has no content");
}

static void values_are_bytes(stonecast_client *client) {
    char buffer[4] = "abc";
    size_t size;
    uint64_t version;
    check(stonecast_put(client, "a\0b", 3, "v\0w", 3, &version, &error) == STONECAST_STATUS_OK, "zero bytes are stored");
    check(stonecast_get_into(client, "a\0b", 3, buffer, 2, &size, NULL, &error) == STONECAST_STATUS_TOO_SMALL && size == 3 &&
              memcmp(buffer, "abc", 4) == 0,
          "a small buffer is left as it is, and the size is told");
    check(stonecast_get_into(client, "a\0b", 3, buffer, 3, &size, &version, &error) == STONECAST_STATUS_OK &&
              memcmp(buffer, "v\0w", 3) == 0,
          "a buffer that just fits");
    check(stonecast_put(client, "empty", 5, NULL, 0, NULL, &error) == STONECAST_STATUS_OK, "an empty value");
    check(stonecast_get_into(client, "empty", 5, NULL, 0, &size, NULL, &error) == STONECAST_STATUS_OK && size == 0, "is there");
    check(stonecast_get_into(client, "none", 4, NULL, 0, &size, NULL, &error) == STONECAST_STATUS_ABSENT, "is absent");
    check(stonecast_put(client, "", 0, "v", 1, NULL, &error) == STONECAST_STATUS_INVALID, "an empty key is refused");
}

static void conditions(stonecast_client *client) {
    uint64_t first, now;
    stonecast_write *write = stonecast_write_new();
    stonecast_write_if_absent(write);
    check(stonecast_put_with(client, "c", 1, "1", 1, write, &first, &error) == STONECAST_STATUS_OK, "it was absent");
    check(stonecast_put_with(client, "c", 1, "2", 1, write, &now, &error) == STONECAST_STATUS_CONFLICT && now == first, "the version in the way");
    stonecast_write_if_version(write, first);
    check(stonecast_put_with(client, "c", 1, "2", 1, write, &now, &error) == STONECAST_STATUS_OK && now > first, "the version held");
    check(stonecast_delete_with(client, "c", 1, write, &now, &error) == STONECAST_STATUS_CONFLICT, "no longer");
    check(stonecast_delete_with(client, "c", 1, NULL, NULL, &error) == STONECAST_STATUS_OK, "removed");
    check(stonecast_put_with(client, "c", 1, "3", 1, write, &now, &error) == STONECAST_STATUS_ABSENT && now == 0, "an absent key has no version");
    check(stonecast_delete(client, "c", 1, &error) == STONECAST_STATUS_ABSENT, "removed once");
    check(stonecast_write_expires_at(write, 0) == STONECAST_STATUS_MISUSE, "0 is no moment");
    stonecast_write_free(write);
}

static void *of_another_thread(void *client) {
    stonecast_error *refused;
    stonecast_status status = stonecast_put(client, "t", 1, "v", 1, NULL, &refused);
    int holds = status == STONECAST_STATUS_MISUSE && stonecast_error_effect(refused) == STONECAST_EFFECT_NONE &&
                stonecast_close(client) == STONECAST_STATUS_MISUSE;
    stonecast_error_free(refused);
    return holds ? client : NULL;
}

static void a_client_belongs_to_its_thread(stonecast_client *client) {
    pthread_t thread;
    void *held = NULL;
    pthread_create(&thread, NULL, of_another_thread, client);
    pthread_join(thread, &held);
    check(held == client, "another thread is refused");
    check(stonecast_delete(client, "t", 1, &error) == STONECAST_STATUS_ABSENT, "and the client goes on");
}

static void a_client_belongs_to_its_process(stonecast_client *client, const char *url) {
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        int refused = stonecast_put(client, "f", 1, "v", 1, NULL, NULL) == STONECAST_STATUS_MISUSE;
        int closed = stonecast_close(client) == STONECAST_STATUS_OK;
        stonecast_client *own;
        int opened = stonecast_connect(url, NULL, &own, NULL) == STONECAST_STATUS_OK &&
                     stonecast_put(own, "f", 1, "child", 5, NULL, NULL) == STONECAST_STATUS_OK;
        _exit(refused && closed && opened ? 0 : 1);
    }
    waitpid(child, &status, 0);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child is refused, and connects on its own");
    check(stonecast_delete(client, "f", 1, &error) == STONECAST_STATUS_OK, "the parent goes on");
}

static void an_iteration_ends_with_its_client(const char *url) {
    stonecast_client *client = connected(url, NULL);
    stonecast_iteration *all;
    const stonecast_record *record;
    check(stonecast_entries(client, &all, &error) == STONECAST_STATUS_OK, "begun");
    check(stonecast_close(client) == STONECAST_STATUS_OK, "closed");
    check(stonecast_entries_next(all, &record, &error) == STONECAST_STATUS_CLOSED && record == NULL, "the client is closed");
    check(stonecast_entries_close(all) == STONECAST_STATUS_OK, "ended all the same");
}

static void an_error_never_hides_a_write(const char *url) {
    stonecast_options *options = stonecast_options_new();
    stonecast_options_operation_timeout(options, 0);
    stonecast_client *hurried = connected(url, options);
    stonecast_write *write = stonecast_write_new();
    stonecast_error *late = NULL;
    stonecast_write_retryable(write);
    stonecast_put_with(hurried, "once", 4, "1", 1, write, NULL, &late);
    check(stonecast_error_status(late) == STONECAST_STATUS_TIMED_OUT, "no answer comes in no time");
    check(stonecast_error_effect(late) == STONECAST_EFFECT_UNKNOWN && stonecast_error_can_retry(late), "the outcome is unknown");
    check(stonecast_write_retry(write, late) == STONECAST_STATUS_OK, "it can be repeated");
    stonecast_error_free(late);

    /* An attempt that is not begun says nothing about the first one. */
    stonecast_put_with(hurried, NULL, 4, "1", 1, write, NULL, &late);
    check(stonecast_error_status(late) == STONECAST_STATUS_MISUSE && stonecast_error_effect(late) == STONECAST_EFFECT_UNKNOWN &&
              stonecast_error_can_retry(late),
          "the second attempt leaves the outcome unknown");
    check(stonecast_write_retry(write, late) == STONECAST_STATUS_OK, "it can still be repeated");
    stonecast_error_free(late);

    stonecast_client *client = connected(url, NULL);
    uint64_t version = 0, found = 0;
    size_t size;
    check(stonecast_put_with(client, "once", 4, "1", 1, write, &version, &error) == STONECAST_STATUS_OK, "the third attempt is answered");
    check(stonecast_get_into(client, "once", 4, NULL, 0, &size, &found, &error) == STONECAST_STATUS_TOO_SMALL && found == version,
          "the version is that of the one write");

    /* The token served its attempt: another write with the same options is done. */
    check(stonecast_put_with(client, "other", 5, "2", 1, write, &found, &error) == STONECAST_STATUS_OK && found > version,
          "another write is no attempt at the first one");
    check(stonecast_delete(client, "other", 5, &error) == STONECAST_STATUS_OK, "it was done");
    stonecast_write_free(write);
    stonecast_options_free(options);
    stonecast_close(client);
    stonecast_close(hurried);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        return EXIT_FAILURE;
    }
    stonecast_client *client = connected(argv[1], NULL);
    null_is_refused(client);
    null_is_freed();
    values_are_bytes(client);
    conditions(client);
    a_client_belongs_to_its_thread(client);
    a_client_belongs_to_its_process(client, argv[1]);
    an_iteration_ends_with_its_client(argv[1]);
    an_error_never_hides_a_write(argv[1]);
    check(stonecast_close(client) == STONECAST_STATUS_OK, "closed");
    printf("%d broken\n", broken);
    return broken == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
