/* Takes a job once, however often the connection fails: a write whose outcome is unknown is repeated by the token in its error. */

#include <stdio.h>
#include <stdlib.h>

#include <stonecast.h>

/* The connection ended, or did not come about: another one is needed. */
static int is_over(stonecast_status status) {
    return status == STONECAST_STATUS_DISCONNECTED || status == STONECAST_STATUS_CLOSED;
}

/* Stores "taken" under "job" if nobody has done so. The write takes effect once. */
static stonecast_status take_job(const char *url, const stonecast_options *options) {
    stonecast_client *client = NULL;
    stonecast_error *error = NULL;
    stonecast_status status = STONECAST_STATUS_CLOSED;
    stonecast_write *write = stonecast_write_new();
    stonecast_write_if_absent(write);
    stonecast_write_retryable(write);

    for (int attempt = 0; attempt < 10; attempt++) {
        if (is_over(status)) {
            stonecast_error *refused;
            stonecast_close(client);
            if (stonecast_connect(url, attempt == 0 ? options : NULL, &client, &refused) != STONECAST_STATUS_OK) {
                fprintf(stderr, "connect: %s\n", stonecast_error_message(refused));
                stonecast_error_free(refused);
                continue;
            }
        }
        if (error != NULL && stonecast_write_retry(write, error) != STONECAST_STATUS_OK) {
            break; /* Nothing was done, or a read of the key has to tell. */
        }
        stonecast_error_free(error);
        status = stonecast_put_with(client, "job", 3, "taken", 5, write, NULL, &error);
        if (error == NULL) {
            break;
        }
        printf("attempt %d: %s\n", attempt + 1, stonecast_error_message(error));
        if (status == STONECAST_STATUS_TIMED_OUT) {
            status = STONECAST_STATUS_CLOSED; /* Try another connection. */
        }
    }
    stonecast_error_free(error);
    stonecast_write_free(write);
    stonecast_close(client);
    return status;
}

int main(int argc, char **argv) {
    const char *url = argc > 1 ? argv[1] : "shm:./stonecast-data/socket";
    /* No answer comes in no time: the first attempt is sent, and its outcome is unknown. */
    stonecast_options *options = stonecast_options_new();
    stonecast_options_operation_timeout(options, 0);
    stonecast_status status = take_job(url, options);
    stonecast_options_free(options);
    switch (status) {
    case STONECAST_STATUS_OK:
        printf("the job is taken\n");
        return EXIT_SUCCESS;
    case STONECAST_STATUS_CONFLICT:
        printf("somebody else has the job\n");
        return EXIT_SUCCESS;
    default:
        printf("it is not known who has the job\n");
        return EXIT_FAILURE;
    }
}
