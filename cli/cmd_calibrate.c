/* `stowage calibrate`: a machine file for one's own devices. Measuring needs the framework, so a Python interpreter does the work
 * (`PYTHON -m stowage.torch`), started with an argument vector and without a shell. Here arguments are checked, what is lacking
 * is said, and signals and the end are passed on. */
#define _POSIX_C_SOURCE 200809L /* posix_spawnp, sigwait, waitid, setenv, strsignal */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/file.h"
#include "search.h"

extern char **environ;

enum { CLI_CHILD_FAILED = 1, MOST_ARGUMENTS = 12 };

/* ---- arguments ---- */

static stw_status check_model(const cli_call *call, const char *model, stw_error *error) {
    static const char *const written[] = {"output", "graph"};
    const char *colon = strrchr(model, ':');
    char file[STW_PATH_BYTES];
    if (colon == NULL || colon == model || colon[1] == '\0') {
        return stw_fail(error, STW_ERROR_INPUT, "--model: '%s' names no function; write FILE.py:FUNCTION", model);
    }
    if (snprintf(file, sizeof file, "%.*s", (int)(colon - model), model) >= (int)sizeof file) {
        return stw_fail(error, STW_ERROR_INPUT, "--model: the path has more than %d bytes", STW_PATH_BYTES - 1);
    }
    for (int k = 0; k < 2; k++) {
        const char *path = stw_options_get(call->options, written[k]);
        if (!cli_is_dash(path) && stw_file_is_same(path, file)) {
            return stw_fail(error, STW_ERROR_INPUT,
                            "--%s: '%s' is also that of --model, which it would overwrite; name another file", written[k], path);
        }
    }
    return STW_OK;
}

static stw_status check_arguments(const cli_call *call, stw_error *error) {
    const char *model = stw_options_get(call->options, "model"), *graph = stw_options_get(call->options, "graph");
    if (stw_options_get(call->options, "devices") == NULL) {
        return stw_fail(error, STW_ERROR_INPUT, "calibrate needs --devices, such as --devices cuda:0,cuda:1 or cpu:0-3,cpu:4-7");
    }
    if (stw_options_get(call->options, "output") == NULL) {
        return stw_fail(error, STW_ERROR_INPUT, "calibrate needs -o FILE, such as -o machine.json; '-' is standard output");
    }
    if (model == NULL && graph != NULL) {
        return stw_fail(error, STW_ERROR_INPUT, "--graph needs --model FILE.py:FUNCTION, the model whose step it will hold");
    }
    if (model != NULL && graph == NULL) {
        return stw_fail(error, STW_ERROR_INPUT,
                        "--model needs --graph FILE for its step with the times, such as --graph step.json.gz");
    }
    if (graph != NULL && cli_is_dash(graph)) {
        return stw_fail(error, STW_ERROR_INPUT, "--graph needs a file; only the machine can go to standard output");
    }
    return model != NULL ? check_model(call, model, error) : STW_OK;
}

/* ---- the interpreter as a child process ---- */

typedef struct interpreter {
    const char *program; /* as it is looked up on PATH */
    pid_t pid;
    pthread_t parent;   /* the thread that waits for signals */
    atomic_bool ended;  /* and may be waited for */
    sigset_t forwarded; /* Ctrl-C and its kin, unless our caller ignores them */
    sigset_t before;    /* the mask of the caller */
    sigset_t mask;      /* that of the child */
    int32_t interrupts; /* how many have come */
    int status;         /* as waitpid gives it */
} interpreter;

/* Signals are held and waited for; cli/interrupt.c tells why there are no handlers. The child begins with Ctrl-C and its kin
 * held, and lets them through when it can handle them: an interrupt while it loads its packages would be a page of Python's
 * calls. */
static void hold_signals(interpreter *child) {
    static const int number[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction current;
    sigset_t ours;
    sigemptyset(&child->forwarded);
    for (int k = 0; k < 3; k++) {
        const bool ignored = sigaction(number[k], NULL, &current) == 0 && current.sa_handler == SIG_IGN;
        if (!ignored) sigaddset(&child->forwarded, number[k]);
    }
    pthread_sigmask(SIG_BLOCK, &child->forwarded, &child->before);
    pthread_sigmask(SIG_BLOCK, NULL, &child->mask);
    sigemptyset(&ours);
    sigaddset(&ours, SIGUSR1); /* see await_end */
    pthread_sigmask(SIG_BLOCK, &ours, NULL);
    signal(SIGCHLD, SIG_DFL); /* where it is ignored, nobody learns how a child ended */
}

static void release_signals(const interpreter *child) {
    sigset_t mask = child->before;
    sigaddset(&mask, SIGUSR1); /* one may have come from elsewhere */
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

/* Returns an errno, or 0. */
static int start(interpreter *child, const char **argument) {
    posix_spawnattr_t attributes;
    int fault = posix_spawnattr_init(&attributes);
    if (fault != 0) return fault;
    posix_spawnattr_setsigmask(&attributes, &child->mask);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    fault = posix_spawnp(&child->pid, child->program, NULL, &attributes, (char *const *)(uintptr_t)argument, environ);
    posix_spawnattr_destroy(&attributes);
    return fault;
}

/* A thread that tells by SIGUSR1 of the child's end: SIGCHLD could come to a thread of some library and be lost. The child is
 * left to be waited for, so that its number is nobody else's as long as signals are sent there. */
static void *await_end(void *context) {
    interpreter *child = context;
    siginfo_t info;
    while (waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) continue;
    atomic_store(&child->ended, true);
    pthread_kill(child->parent, SIGUSR1);
    return NULL;
}

/* The first signal goes on to the child, the second ends it at once. Ctrl-C on a terminal reaches it from there as well, which
 * stowage.torch knows. */
static void forward_signals(interpreter *child) {
    sigset_t awaited = child->forwarded;
    sigaddset(&awaited, SIGUSR1);
    for (int number = 0; sigwait(&awaited, &number) == 0;) {
        if (number == SIGUSR1 && atomic_load(&child->ended)) return;
        if (number == SIGUSR1) continue;
        child->interrupts++;
        kill(child->pid, child->interrupts > 1 ? SIGKILL : number);
    }
}

/* To its end. `argument` has a place for the program's name in front and NULL at its end. Returns an errno, or 0. */
static int run_child(interpreter *child, const char **argument) {
    pthread_t waiting;
    argument[0] = child->program;
    child->parent = pthread_self();
    atomic_store(&child->ended, false);
    const int fault = start(child, argument);
    if (fault != 0) return fault;
    if (pthread_create(&waiting, NULL, await_end, child) == 0) { /* else Ctrl-C reaches it by the terminal alone */
        forward_signals(child);
        pthread_join(waiting, NULL);
    }
    while (waitpid(child->pid, &child->status, 0) < 0 && errno == EINTR) continue;
    return 0;
}

/* ---- what is lacking, asked before the work ---- */

/* In Python of any version; says in one line what is wrong and ends with 2. Whether PyTorch can be loaded takes seconds to find
 * out, so it is only looked for. */
static const char question[] =
    "import sys\n"
    "def end(what):\n"
    "    sys.stderr.write('stowage: %s %s\\n' % (sys.executable, ' '.join(what.split())))\n"
    "    sys.exit(2)\n"
    "if sys.version_info < (3, 9):\n"
    "    end('is Python %d.%d, and 3.9 is needed; name another with --python' % sys.version_info[:2])\n"
    "from importlib.util import find_spec\n"
    "spec = find_spec('stowage')\n"
    "if spec is None or spec.origin is None:\n"
    "    end(\"has no package stowage; 'pip install ./python' in a checkout installs it, --python names another interpreter\")\n"
    "try:\n"
    "    import stowage\n"
    "except Exception as error:\n"
    "    end('has a package stowage that cannot be loaded: %s' % error)\n"
    "if find_spec('torch') is None:\n"
    "    end('has no PyTorch, which measures; install it there (pip install torch) or name another interpreter with --python')\n";

static stw_status fail_start(const cli_call *call, const char *program, int fault, stw_error *error) {
    if (program == NULL) {
        return stw_fail(error, STW_ERROR_INPUT,
                        "neither python3 nor python is on PATH; name one that has the packages stowage and torch with --python");
    }
    const bool is_option = stw_options_get(call->options, "python") != NULL;
    return stw_fail(error, STW_ERROR_INPUT, "%s: '%s' cannot be run: %s; name a Python that has the packages stowage and torch",
                    is_option ? "--python" : "STOWAGE_PYTHON", program, strerror(fault));
}

/* Finds the interpreter and asks it. */
static stw_status ask(const cli_call *call, interpreter *child, stw_error *error) {
    static const char *const usual[] = {"python3", "python"};
    const char *argument[] = {NULL, "-c", question, NULL};
    const char *named = stw_options_get(call->options, "python");
    if (named == NULL) named = getenv("STOWAGE_PYTHON");
    if (named != NULL && named[0] == '\0') named = NULL;
    int fault = ENOENT;
    for (int k = 0; k < (named != NULL ? 1 : 2) && fault == ENOENT; k++) {
        child->program = named != NULL ? named : usual[k];
        fault = run_child(child, argument);
    }
    if (fault == 0) return STW_OK;
    return fail_start(call, named == NULL && fault == ENOENT ? NULL : child->program, fault, error);
}

/* ---- the work ---- */

/* Values go behind an equals sign, so that none is taken for an option. */
static stw_status make_arguments(const cli_call *call, stw_arena *arena, const char **argument, stw_error *error) {
    static const char *const texts[] = {"devices", "output", "model", "graph", "format"};
    int count = 1; /* the program's name comes first */
    argument[count++] = "-m";
    argument[count++] = "stowage.torch";
    for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++) {
        const char *value = stw_options_get(call->options, texts[k]);
        if (value == NULL) continue;
        argument[count] = stw_str_format(arena, "--%s=%s", texts[k], value).p;
        if (argument[count++] == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    }
    if (cli_is_set(call, "copies")) argument[count++] = "--copies";
    if (cli_is_set(call, "quiet")) argument[count++] = "--quiet";
    argument[count] = NULL;
    return STW_OK;
}

/* The child's exit status, or what stands for it. */
static int status_of(const interpreter *child) {
    if (WIFEXITED(child->status) && WEXITSTATUS(child->status) == 0) return CLI_DONE;
    if (child->interrupts > 0) return CLI_INTERRUPTED;
    if (WIFEXITED(child->status)) return WEXITSTATUS(child->status);
    const int number = WTERMSIG(child->status);
    if (number == SIGPIPE) raise(SIGPIPE); /* whoever reads has seen enough, of us too */
    stw_error error;
    stw_fail(&error, STW_ERROR_INPUT, "%s was ended by signal %d (%s)%s", child->program, number, strsignal(number),
             number == SIGKILL ? ", as happens where memory runs out" : "");
    cli_fault(&error);
    return CLI_CHILD_FAILED;
}

static int calibrate(const cli_call *call, interpreter *child) {
    const char *argument[MOST_ARGUMENTS];
    stw_arena arena = call->arena;
    stw_error error;
    if (make_arguments(call, &arena, argument, &error) != STW_OK) return cli_fault(&error);
    if (ask(call, child, &error) != STW_OK) return cli_fault(&error);
    if (child->interrupts > 0) return CLI_INTERRUPTED; /* the question was answered all the same */
    const int answer = status_of(child);
    if (answer == CLI_DONE) {
        const int fault = run_child(child, argument);
        if (fault == 0) return status_of(child);
        fail_start(call, child->program, fault, &error);
    } else if (answer == CLI_FAULT || WIFSIGNALED(child->status)) {
        return answer; /* it has been said */
    } else {
        stw_fail(&error, STW_ERROR_INPUT,
                 "'%s' does not work as a Python interpreter (exit status %d); name another with --python", child->program,
                 answer);
    }
    return cli_fault(&error);
}

int cmd_calibrate(const cli_call *call) {
    stw_error error;
    interpreter child = {.ended = false};
    if (check_arguments(call, &error) != STW_OK) return cli_fault(&error);
    setenv("PYTHONSAFEPATH", "1", 0);                     /* a torch.py that lies in the folder is not ours to run */
    setenv("TORCH_LOGS", "-torch.utils.flop_counter", 0); /* which has a word about Triton for everybody */
    hold_signals(&child);
    const int status = calibrate(call, &child);
    release_signals(&child);
    return status;
}
