/* The program `stowage`: the command table, and what every run has in common. To add a command, write cmd_NAME.c, add a row
 * here, a bit in src/api/options.h and the bit to the rows of src/api/options.def that it takes. */
#define _POSIX_C_SOURCE 200809L /* sigaction */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

const cli_command cli_commands[] = {
    {.name = "optimize",
     .bit = STW_FOR_OPTIMIZE,
     .run = cmd_optimize,
     .least_operands = 1,
     .most_operands = 1,
     .lists_methods = true,
     .summary = "find the best plan within a budget",
     .usage = "optimize GRAPH --machine NAME|FILE [OPTION...]",
     .description =
         "Evaluates the default (everything on one device, in topological order), then the methods that build plans, cheapest "
         "first, then improves the best of them until the budget ends. The best valid plan that was seen is the result, so it "
         "is never worse than the default. GRAPH is a graph file (plain, gzip or zstd); '-' is standard input.\n\n"
         "Prints each method's result, the winner's step time beside the default's and beside the lower bound, and how "
         "often it stays ahead of the default when op times are off by their known errors: measured times by little, modelled "
         "ones "
         "by the error of the model. Speed-up is t_default / t, reduction is 1 - t / t_default; with --objective throughput t is "
         "the largest load of a device. Warnings on standard error name what makes these numbers unreliable: sizes that the "
         "model "
         "leaves open, unknown operators, a program that is already partitioned. --format json prints the head of the plan file; "
         "csv "
         "and markdown the candidates.\n\n"
         "With a budget of time the result depends on the speed of the computer; with --evaluations and --seed it repeats "
         "exactly, on any number of threads.\n\n"
         "However small the budget, the default and the cheapest good method run; then the search ends within 1.2 times the "
         "budget, "
         "files not counted. If the time is too short for fusion, less is fused, or nothing, and the note of the default "
         "says "
         "so; likewise the bound and the check against errors of costs are left out.\n\n"
         "A method that runs out of memory returns the best plan it had found, or none; the others continue, a line on "
         "standard error says so, and the exit status is 0.\n\n"
         "Ctrl-C (or SIGTERM, or SIGHUP) ends the search: the best plan so far is written and printed, and the exit status is "
         "130. A second Ctrl-C "
         "ends the program at once. Without any valid plan the exit status is 1, and a line says what is missing.",
     .examples = "stowage optimize gnmt-4.json.gz --machine h200x4 -o plan.json\tten seconds for a plan\n"
                 "stowage optimize gnmt-4.json.gz -m h200x4 --memory 2GB -b 2min --trace t.json\ta tight machine\n"
                 "stowage optimize gnmt-4.json.gz -m h200x4 --evaluations 2000 --seed 7\ta result that repeats\n"},
    {.name = "compare",
     .bit = STW_FOR_COMPARE,
     .run = cmd_compare,
     .least_operands = 1,
     .most_operands = INT32_MAX,
     .lists_methods = true,
     .summary = "run several methods on several graphs and machines",
     .usage = "compare GRAPH... --machine M[,M...] [--methods A,B,...] [OPTION...]",
     .description =
         "Runs each method by itself for every graph on every machine, each with the whole budget and with the same scheduling "
         "rule (see --rule). 'optimize' counts as a method: what 'stowage optimize' finds.\n\n"
         "One graph on one machine gives a table of methods, several give a row each with a column per method, the best in "
         "bold, and at the end the geometric mean over the rows of t / lower bound. CSV has a line per graph, machine and "
         "method; JSON also has when each method found its plans.\n\n"
         "The exit status is 1 if no method finds a valid plan for some row. Ctrl-C prints what is done; the exit status is "
         "then 130.",
     .examples = "stowage compare gnmt-4.json.gz --machine h200x4 --methods single,spread,optimize\tthree methods\n"
                 "stowage compare *.json.gz -m h200x2,h200x4 --budget 5s --format markdown\ta table for a report\n"},
    {.name = "train",
     .bit = STW_FOR_TRAIN,
     .run = cmd_train,
     .least_operands = 0,
     .most_operands = 1,
     .summary = "train a policy that builds plans, for a graph or for many",
     .usage = "train [GRAPH | --corpus A,B,...] -o POLICY [OPTION...]",
     .description =
         "Trains a network that decides for every unit of ops where and when it runs, on this graph and machine alone, by what "
         "the simulator says about the plans that it samples. The method go-one does the same for as long as its budget lasts "
         "and "
         "forgets the network; here it is kept, with the state of its training, in the file POLICY: every half minute, at the "
         "end, and when it is interrupted.\n\n"
         "Prints how far the training is, what the best plan that was seen is worth, and the learning curve: the plan of the "
         "policy without noise, and the best so far. --curve has a line of CSV per update.\n\n"
         "With --updates and --seed the policy repeats bit for bit, on any number of threads, and --resume continues a "
         "training that was interrupted, given the same options. A run with --budget cannot be resumed, since its course "
         "depends on the time that is left.\n\n"
         "With --corpus it trains one policy for many graphs and machines, which are drawn at random: what go-zero and "
         "go-tune then use on graphs that it has never seen. mpirun starts it on several processes.\n\n"
         "Ctrl-C (or SIGTERM, or SIGHUP) ends the training: the policy, the curve and the best plan are written, and the exit "
         "status is 130. With --corpus the policy is that of the last 24 updates that were done together. A second "
         "Ctrl-C ends the program at once.",
     .examples = "stowage train gnmt-4.json.gz --machine h200x4 -o policy.stw\ta minute of training\n"
                 "stowage train gnmt-4.json.gz -m h200x4 -o p.stw --updates 400 --curve c.csv\tone that repeats\n"
                 "stowage train gnmt-4.json.gz -m h200x4 -o p.stw --updates 400 --resume\tcontinue after Ctrl-C\n"
                 "stowage train --corpus all --hold-out gnmt -o p.stw --updates 2000\tfor many graphs, except those of GNMT\n"
                 "mpirun -n 2 stowage train --corpus all -o p.stw --updates 2000\ton two processes\n"},
    {.name = "simulate",
     .bit = STW_FOR_SIMULATE,
     .run = cmd_simulate,
     .least_operands = 1,
     .most_operands = 1,
     .lists_methods = true,
     .summary = "evaluate a plan: step time, memory, traffic",
     .usage = "simulate GRAPH --machine NAME|FILE --plan FILE|METHOD [OPTION...]",
     .description =
         "Runs one step of the graph on the machine as the plan says and prints the step time, the lower bound, the "
         "work and peak memory of each device and the traffic on each link. GRAPH is an opgraph file, an "
         "ONNX model, an HLO module, a TensorFlow graph or an input of dnn-partitioning (plain, gzip or zstd); "
         "'-' is standard input.\n\n"
         "Two lower bounds are printed: with the fused groups of the plan, and with any fusion. 'measured' is the share of "
         "the work whose time was measured on that kind of device; the rest is modelled.\n\n"
         "An invalid plan is a result: the report gives the reason, and the exit status is 1. A plan whose only fault is "
         "too little memory still has all its numbers.\n\n"
         "The options from --budget on are for the methods of --plan METHOD.\n\n"
         "A built-in machine or a method is preferred to a file of the same name; write ./single for the file.",
     .examples = "stowage simulate gnmt-4.json.gz --machine h200x4 --plan spread\tequal stages on four devices\n"
                 "stowage simulate gnmt-4.json.gz --plan plan.json --trace t.json\ta plan file on its own machine\n"
                 "stowage simulate gnmt-4.json.gz -m h200x2 -p spread --memory 4GB -o plan.json\twrite the plan\n"},
    {.name = "explain",
     .bit = STW_FOR_EXPLAIN,
     .run = cmd_explain,
     .least_operands = 1,
     .most_operands = 1,
     .summary = "say what a plan's step is made of, and what would change it",
     .usage = "explain GRAPH --plan FILE|METHOD [OPTION...]",
     .description =
         "Simulates the plan and follows its critical path from the end of the step to the beginning: what computes, what "
         "devices "
         "spend on sending and receiving (charges), what is on its way, and what was ready and had to wait for something else, "
         "which is named. The parts add up to the step time exactly. Then, for each device, how long it idles and for what; and "
         "the ops, groups and transfers that the path's time goes to.\n\n"
         "--what-if tries other machines and times, each as a simulation of its own: with the plan as it is, and with the best "
         "plan of a short search, which is never worse. The first row is the same search with nothing changed, to compare with. "
         "devices=+1 adds a copy of the last device, devices=-1 takes the last one away.\n\n"
         "--op moves an op, with its group and with parameters and updates that must be with it, to each other device and "
         "leaves all else as it is. --group takes a group apart, and merges it with each of its neighbours. A change that is not "
         "allowed is listed with the reason.\n\n"
         "An invalid plan has no step to explain, and the exit status is 1, unless its only fault is too little memory. Ctrl-C "
         "leaves out the what-ifs that have not begun; the exit status is then 130.",
     .examples = "stowage explain gnmt-4.json.gz --plan plan.json\twhat bounds the step, why devices idle, what-ifs\n"
                 "stowage explain gnmt-4.json.gz -p plan.json --what-if none\tthe same without searches\n"
                 "stowage explain gnmt-4.json.gz -p plan.json --what-if bandwidth=x4,devices=+2\tother machines\n"
                 "stowage explain gnmt-4.json.gz -p plan.json --op 120\twhy node 120 is where it is\n"
                 "stowage explain gnmt-4.json.gz -p plan.json --group 120\twhat its group saves\n"},
    {.name = "report",
     .bit = STW_FOR_REPORT,
     .run = cmd_report,
     .least_operands = 1,
     .most_operands = 1,
     .summary = "write a page that shows a plan: timelines, memory, critical path",
     .usage = "report GRAPH --plan FILE|METHOD [-o FILE.html] [OPTION...]",
     .description =
         "Simulates the plan and the default (everything on one device) and writes one HTML file that shows them on one axis of "
         "time: what each device runs and each link carries, what is in memory, the critical path, the model by modules, and the "
         "candidates of the search, where the plan's file has them. A browser opens it; it needs no network and fetches nothing, "
         "and text from files is never run. --report of 'stowage optimize', 'simulate' and 'compare' writes the same.\n\n"
         "With --measured, a trace of a real run is shown beside: a track with the name of a device stands below that device, "
         "and events that are called like nodes of the graph are compared with what was predicted of them.\n\n"
         "An invalid plan has no step to show, and the exit status is 1, unless its only fault is too little memory.",
     .examples = "stowage report gnmt-4.json.gz --plan plan.json\treport.html\n"
                 "stowage report gnmt-4.json.gz -m h200x4 -p spread -o spread.html\tthe plan of a method\n"
                 "stowage report gnmt-4.json.gz -p plan.json --measured trace.json\tbeside what was measured\n"},
    {.name = "export",
     .bit = STW_FOR_EXPORT,
     .run = cmd_export,
     .least_operands = 1,
     .most_operands = 1,
     .lists_formats = true,
     .summary = "write a plan in a form that other programs take",
     .usage = "export GRAPH --plan FILE|METHOD --to FORMAT [-o FILE] [OPTION...]",
     .description =
         "Reads the graph and its plan, runs a step as 'stowage simulate' does and writes the plan in the format. onnx, hlo, "
         "hlo-text and graphdef are the model file itself with the plan in it, so GRAPH must be a file of that kind; weights and "
         "whatever else the file holds stay as they are. device-map and split-points need parameters that are labelled with the "
         "paths "
         "of PyTorch modules; the others work for any graph.\n\n"
         "What you need to paste elsewhere, such as a session option of ONNX Runtime, is printed on standard output, or on "
         "standard error when the file itself goes to standard output.\n\n"
         "Every export says what it is worth: the simulated step as the target will run it, as planned, and on one device. A "
         "device map tells the places of modules alone, so without --grain a plan for whole modules is found from the given one, "
         "and everything stays on one device where several gain too little (--min-gain). What is worse than one device is said "
         "first; the exit status is 0, or 3 with --strict.\n\n"
         "An invalid plan is not exported, and the exit status is 1, unless its only fault is too little memory.",
     .examples = "stowage export model.onnx --plan plan.json --to onnx -o planned.onnx\tthe model with the plan in it\n"
                 "stowage export module.hlo --plan plan.json --to hlo -o planned.hlo\tscheduled and fused HLO\n"
                 "stowage export gnmt-4.json.gz --plan plan.json --to device-map\ta device for every module\n"
                 "stowage export gnmt-4.json.gz -m h200x4 --plan spread --to csv -o nodes.csv\ta table of all nodes\n"},
    {.name = "inspect",
     .bit = STW_FOR_INSPECT,
     .run = cmd_inspect,
     .least_operands = 1,
     .most_operands = 1,
     .summary = "show what a graph, machine, plan or policy file holds",
     .usage = "inspect FILE [OPTION...]",
     .description =
         "Shows what a file holds: a graph, a machine, a plan or a policy, which it recognises by the key \"format\" or by "
         "the first bytes. FILE may be packed with gzip or zstd; '-' is standard input; the name of a built-in machine "
         "is allowed too.\n\n"
         "Of a graph: nodes, bytes, arithmetic, measured times and the operator classes; operators that the operator table "
         "does not know are listed. Of a plan: its head, how many kernels it has and how many nodes each device holds; the graph "
         "is not needed. Of a policy: its dimensions, its tensors and how far its training is.\n\n"
         "With --features: the numbers that a policy sees of a graph on a machine.",
     .examples = "stowage inspect gnmt-4.json.gz\ta graph\n"
                 "stowage inspect h200x2+2\tthe devices and links of a built-in machine\n"
                 "stowage inspect plan.json --format json\ta plan, for a script\n"
                 "stowage inspect policy.stw\ta policy that 'stowage train' wrote\n"
                 "stowage inspect gnmt-4.json.gz --features --machine h200x4\twhat a policy sees of a graph\n"},
    {.name = "generate",
     .bit = STW_FOR_GENERATE,
     .run = cmd_generate,
     .most_operands = 1,
     .summary = "write the graph of a training step of a well-known model, in any size",
     .usage = "generate [FAMILY -o FILE] [OPTION...]",
     .description =
         "Without an argument, lists the families, what each takes and its own sizes, which are those of a traced graph. With "
         "one, "
         "writes a training step of such a model (forward, backward, one update per parameter) as an opgraph file, with the "
         "operators that PyTorch's traces have. There are no measured times in it: costs come from the model of the machine.\n\n"
         "The same options give the same bytes. A graph has at most a million ops.",
     .examples = "stowage generate\tthe families\n"
                 "stowage generate rnnlm --layers 4 --steps 40 -o rnnlm.json.gz\ta larger language model\n"
                 "stowage generate gpt --layers 24 --width 1024 --experts 16 -o moe.json.zst\ta mixture of experts\n"
                 "stowage generate layered --layers 100 --seed 7 -o - | stowage inspect -\ta random graph\n"},
    {.name = "machine",
     .bit = STW_FOR_MACHINE,
     .run = cmd_machine,
     .most_operands = 1,
     .summary = "list the built-in machines or write one as a machine file",
     .usage = "machine [NAME|FILE] [OPTION...]",
     .description =
         "Without an argument, lists the families of built-in machines, and which of their numbers are measured and which "
         "assumed. With one, prints that machine as a machine file (JSON), ready to be redirected to a file, edited and given to "
         "--machine. With --format text it is shown as tables instead, as 'stowage inspect' shows it.\n\n"
         "Names with 0.1/ in front, such as 0.1/h200x4, are the machines of version 0.1: transfers take nothing from their "
         "devices. Tables that were made with them can be repeated.",
     .examples = "stowage machine\tthe built-in machines\n"
                 "stowage machine h200x4 > mine.json\ta machine file to edit\n"
                 "stowage machine h200x4 --memory 40GB -o small.json\tthe same with less memory\n"
                 "stowage machine mine.json --format text\tits devices and links\n"},
    {.name = "calibrate",
     .bit = STW_FOR_CALIBRATE,
     .run = cmd_calibrate,
     .summary = "measure your own devices and write a machine file for them",
     .usage = "calibrate --devices D,D,... -o FILE [OPTION...]",
     .description =
         "Runs small benchmarks on the devices (arithmetic, memory, launches, copies and dependencies between them) and writes "
         "what was measured as a machine file for --machine. With --model and --graph it also traces a step of the model, times "
         "every op of it with all devices at work, and writes the graph with these times: what 'stowage optimize' needs.\n\n"
         "A device is a GPU (cuda:0), a share of its multiprocessors (cuda:0/sm:64; needs the package cuda-bindings), or cores "
         "(cpu:0-3, cpu:0,2), of any sizes and sorts. Nothing else should run on them meanwhile.\n\n"
         "FUNCTION of FILE.py takes no arguments and returns (module, args) or (module, args, kwargs): a torch.nn.Module and "
         "what it is called with. They are moved to the first device. Among kwargs, loss and train mean what they mean in "
         "stowage.torch.calibrate. FILE.py is run, so it must be one that you trust.\n\n"
         "PyTorch measures, in a Python interpreter that has the packages stowage and torch: the one of --python, else of the "
         "environment variable STOWAGE_PYTHON, else python3, else python. No shell is involved. The exit status is that of the "
         "interpreter; 1 if a signal ended it. Ctrl-C (or SIGTERM, or SIGHUP) ends it and writes nothing; the exit status is "
         "130. A second Ctrl-C ends it at once.",
     .examples = "stowage calibrate --devices cuda:0,cuda:1 -o machine.json\ttwo GPUs\n"
                 "stowage calibrate --devices cpu:0-3,cpu:4-7 -o machine.json\teight cores as two devices\n"
                 "stowage calibrate --devices cuda:0/sm:64,cuda:0/sm:64 -o m.json\ttwo shares of a GPU\n"
                 "stowage calibrate --devices cpu:0,cpu:1 -o m.json --model a.py:f --graph g.json\ta model's step too\n"
                 "stowage optimize g.json --machine m.json --tasks placement,schedule\tthe plan for them\n"},
    {.name = "version",
     .bit = STW_FOR_VERSION,
     .run = cmd_version,
     .summary = "print the version",
     .usage = "version",
     .description = "Prints the name and version of the program.",
     .examples = "stowage version\t\n"},
    {.name = "help",
     .bit = STW_FOR_HELP,
     .run = cmd_help,
     .most_operands = 1,
     .summary = "explain the program or one of its commands",
     .usage = "help [COMMAND] [--man | --completion SHELL]",
     .description = "Prints the help of the program or of a command, like --help, or its man page, or a completion script.",
     .examples = "stowage help simulate\tthe help of a command\n"
                 "stowage help --man simulate | man -l -\tits man page\n"
                 "source <(stowage help --completion bash)\tcomplete commands, options and files in this bash\n"
                 "stowage help --completion fish | source\tthe same in this fish\n"},
};
const int32_t cli_command_count = sizeof cli_commands / sizeof cli_commands[0];

const char cli_description[] =
    "Stowage decides where every operator of a model runs, in what order, and what is fused into one kernel. It works on a graph "
    "(the operators of one step), a machine (devices and links) and a plan (the decisions).";

const char cli_exit_statuses[] =
    "0\tdone\n"
    "1\tno valid plan was found, or the plan is invalid\n"
    "2\tbad usage or input; standard error has one line that says what and where\n"
    "3\tof export --strict: what was exported is worse than one device, or not valid\n"
    "130\tinterrupted\n";

const cli_command *cli_command_find(stw_str name) {
    for (int32_t i = 0; i < cli_command_count; i++) {
        if (stw_str_is(name, cli_commands[i].name)) return &cli_commands[i];
    }
    return NULL;
}

static void on_interrupt(int signal_number) {
    (void)signal_number;
    _exit(CLI_INTERRUPTED);
}

static void set_signals(void) {
    struct sigaction current;
    const struct sigaction interrupt = {.sa_handler = on_interrupt};
    /* Who starts us in the background with interrupts ignored means it. */
    if (sigaction(SIGINT, NULL, &current) == 0 && current.sa_handler != SIG_IGN) sigaction(SIGINT, &interrupt, NULL);
    signal(SIGXFSZ, SIG_IGN); /* a file larger than a limit (ulimit -f) is a failed write, which cleans up and says so */
    /* A reader that has seen enough (head) ends us silently, even where the caller left the signal ignored. */
    signal(SIGPIPE, SIG_DFL);
}

static stw_status check_operands(const cli_call *call, stw_error *error) {
    const cli_command *command = call->command;
    if (call->operand_count < command->least_operands) {
        return stw_fail(error, STW_ERROR_INPUT, "%s needs an argument: stowage %s", command->name, command->usage);
    }
    if (call->operand_count > command->most_operands) {
        return stw_fail(error, STW_ERROR_INPUT, "unexpected argument '%s': stowage %s", call->operand[command->most_operands],
                        command->usage);
    }
    return STW_OK;
}

static int run_command(cli_call *call, int count, char **argument) {
    stw_error error;
    if (cli_parse(call, count, argument, &error) != STW_OK) return cli_fault(&error);
    if (cli_is_set(call, "help")) {
        cli_print_help(call->command);
        return CLI_DONE;
    }
    if (cli_is_set(call, "version")) return cmd_version(call);
    const bool searches = (call->command->bit & (STW_FOR_VERSION | STW_FOR_HELP)) == 0;
    if (searches && cli_config_read(call, &error) != STW_OK) return cli_fault(&error);
    if (check_operands(call, &error) != STW_OK || cli_check_outputs(call, &error) != STW_OK) return cli_fault(&error);
    return call->command->run(call);
}

/* `stowage --help` and `stowage --version` are the commands of these names; a bare `stowage` shows what there is. */
static stw_status choose_command(int count, char **argument, const cli_command **out, stw_error *error) {
    if (count < 2) {
        cli_print_help(NULL);
        return stw_fail(error, STW_ERROR_INPUT, "no command given");
    }
    const stw_str name = stw_str_of(argument[1]);
    const stw_option *option = NULL;
    if (stw_str_starts(name, "--")) {
        option = stw_option_find((stw_str){name.p + 2, name.length - 2}, STW_FOR_VERSION);
    } else if (name.length == 2 && name.p[0] == '-') {
        option = stw_option_find_letter(name.p[1], STW_FOR_VERSION);
    }
    if (option == NULL && name.length > 0 && name.p[0] == '-') {
        return stw_fail(error, STW_ERROR_INPUT, "unknown option '%s'; the command comes first: stowage COMMAND [OPTION...]",
                        name.p);
    }
    *out = cli_command_find(option != NULL ? stw_str_of(option->name) : name);
    return *out != NULL ? STW_OK : cli_unknown_command(name.p, error);
}

int main(int count, char **argument) {
    set_signals();
    cli_interrupts_loaded();
    stw_error error;
    cli_call call = {0};
    int status = CLI_DONE;
    if (choose_command(count, argument, &call.command, &error) != STW_OK || stw_arena_create(&call.arena, &error) != STW_OK ||
        stw_options_create_for(call.command->bit, &call.options, &error) != STW_OK) {
        status = cli_fault(&error);
    } else {
        status = run_command(&call, count - 2, argument + 2);
    }
    stw_options_destroy(call.options);
    stw_arena_destroy(&call.arena);
    return cli_finish_output(status);
}
