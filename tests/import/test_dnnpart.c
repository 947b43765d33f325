/* import/dnnpart: what becomes of a hand-written input, and what is refused with which words. */
#define _POSIX_C_SOURCE 200809L /* mkstemp, fdopen */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "machine/machine.h"
#include "support/small.h"
#include "test.h"

/* c reads a and b; the file has it first. a and c share a colour. */
#define HEAD "{'maxSizePerFPGA':1000,'maxFPGAs':2,'maxCPUs':1,"
#define NODES                                                                                              \
    "'nodes':[{'id':30,'name':'c','cpuLatency':3,'fpgaLatency':0.5,'colorClass':1,'supportedOnFpga':1},"   \
    "{'id':10,'name':'a','cpuLatency':1,'fpgaLatency':0.25,'colorClass':1,'size':100,'isBackwardNode':0}," \
    "{'id':20,'cpuLatency':2,'fpgaLatency':0,'colorClass':null,'size':0,'supportedOnFpga':true}],"
#define EDGES "'edges':[{'sourceId':10,'destId':30,'cost':0.002},{'sourceId':20,'destId':30,'cost':0,'size':5}]}"

static stw_graph *parse(const char *text) {
    stw_error error = {0};
    stw_graph *graph = NULL;
    char *quoted = small_quote(text);
    CHECK_EQ_INT(stw_graph_parse(quoted, strlen(quoted), "g.json", NULL, &graph, &error), STW_OK);
    CHECK_STR(error.message, "");
    free(quoted);
    return graph;
}

static void check_refused(const char *text, const char *where, const char *why) {
    stw_error error = {0};
    stw_graph *graph = (stw_graph *)1;
    char *quoted = small_quote(text);
    CHECK_EQ_INT(stw_graph_parse(quoted, strlen(quoted), "g.json", NULL, &graph, &error), STW_ERROR_INPUT);
    CHECK(graph == NULL);
    CHECK(strncmp(error.message, "g.json: ", 8) == 0);
    CHECK(strchr(error.message, '\n') == NULL);
    CHECK_CONTAINS(error.message, where);
    CHECK_CONTAINS(error.message, why);
    free(quoted);
}

TEST(dnnpart, graph) {
    stw_graph *graph = parse(HEAD NODES EDGES);
    if (graph == NULL) return;
    /* 0: what a holds; 1: a; 2: node 20; 3: c */
    CHECK_EQ_INT(graph->N, 4);
    CHECK_EQ_INT(graph->op_count, 3);
    CHECK_STR(stw_graph_node_name(graph, 1), "a");
    CHECK_STR(stw_graph_node_name(graph, 2), "node 20");
    CHECK_STR(stw_graph_node_name(graph, 3), "c");
    CHECK_EQ_INT(graph->kind[0], STW_NODE_PARAMETER);
    CHECK_EQ_INT(graph->bytes[0], 100000000);
    CHECK_EQ_INT(graph->bytes[1], 20000); /* 2 us */
    CHECK_EQ_INT(graph->bytes[2], 0);
    CHECK_EQ_INT(graph->bytes[3], 0);
    CHECK_EQ_INT(graph->colocate[0], 1);
    CHECK_EQ_INT(graph->colocate[1], -1);
    CHECK_EQ_INT(graph->colocate[2], -1);
    CHECK_EQ_INT(graph->colocate[3], 1);
    CHECK_EQ_INT(graph->reader_start[2] - graph->reader_start[1], 1);
    CHECK_EQ_INT(graph->reader[graph->reader_start[1]].node, 3);
    CHECK_EQ_INT(graph->reader[graph->reader_start[2]].node, 3);
    CHECK_STR(graph->kind_name[0].p, "accelerator");
    CHECK_STR(graph->kind_name[1].p, "cpu");
    CHECK_NEAR(graph->us[0][1], 250.0, 1e-9);
    CHECK_NEAR(graph->us[1][1], 1000.0, 1e-9);
    CHECK_NEAR(graph->us[0][2], 0.0, 0.0);
    CHECK_NEAR(graph->us[1][3], 3000.0, 1e-9);
    CHECK(isnan(graph->us[0][0]));
    stw_graph_destroy(graph);
}

TEST(dnnpart, machine) {
    stw_graph *graph = parse(HEAD NODES EDGES);
    if (graph == NULL) return;
    const stw_machine *machine = stw_graph_machine(graph);
    CHECK_EQ_INT(machine->device_count, 3);
    CHECK_STR(stw_machine_device_name(machine, 1), "accelerator:1");
    CHECK_STR(stw_machine_device_name(machine, 2), "cpu:0");
    CHECK_EQ_INT(machine->host, 2);
    CHECK_EQ_INT(machine->device[0].memory_bytes, 1000 * 1000000 + 20000); /* and room for all outputs */
    CHECK_EQ_INT(machine->device[2].memory_bytes, STW_GRAPH_MAX_BYTES);
    /* a's output: 2 us between accelerator and CPU, and twice that between accelerators. */
    CHECK_EQ_INT(stw_cost_transfer_ps(stw_machine_link(machine, 0, 2), graph->bytes[1]), 2000000);
    CHECK_EQ_INT(stw_cost_transfer_ps(stw_machine_link(machine, 2, 0), graph->bytes[1]), 2000000);
    CHECK_EQ_INT(stw_cost_transfer_ps(stw_machine_link(machine, 0, 1), graph->bytes[1]), 4000000);
    stw_graph_destroy(graph);
}

TEST(dnnpart, a_session_takes_its_machine) {
    char path[] = "/tmp/stowage-dnnpart-XXXXXX";
    const int file = mkstemp(path);
    if (!CHECK(file >= 0)) return;
    FILE *out = fdopen(file, "w");
    char *quoted = small_quote(HEAD NODES EDGES);
    fputs(quoted, out);
    free(quoted);
    fclose(out);
    stw_options *options = NULL;
    stw_session *session = NULL;
    stw_error error = {0};
    CHECK_EQ_INT(stw_options_create(&options, &error), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "plan", "single", &error), STW_OK);
    if (CHECK_EQ_INT(stw_session_open(path, options, &session, &error), STW_OK)) {
        CHECK_STR(stw_machine_name(stw_session_machine(session)), "dnn-partitioning");
        CHECK_EQ_INT(stw_machine_device_count(stw_session_machine(session)), 3);
    }
    stw_session_destroy(session);
    CHECK_EQ_INT(stw_options_set(options, "machine", "h200x2", &error), STW_OK); /* another one may be asked for */
    if (CHECK_EQ_INT(stw_session_open(path, options, &session, &error), STW_OK))
        CHECK_STR(stw_machine_name(stw_session_machine(session)), "h200x2");
    stw_session_destroy(session);
    stw_options_destroy(options);
    remove(path);
}

TEST(dnnpart, an_opgraph_brings_no_machine) {
    stw_graph *graph = parse("{'format':'opgraph','version':1,'maxFPGAs':1,'nodes':[]}");
    if (graph != NULL) CHECK(stw_graph_machine(graph) == NULL);
    stw_graph_destroy(graph);
    check_refused("{'nodes':[]}", "line 1", "\"format\":\"opgraph\" is missing"); /* neither of both */
}

TEST(dnnpart, refusals) {
    check_refused(HEAD
                  "'nodes':[\n{'id':1,'cpuLatency':1,'fpgaLatency':1},\n{'id':1,'cpuLatency':1,'fpgaLatency':1}],'edges':[]}",
                  "line 3, column 1", "nodes[1]: the id 1 is already that of nodes[0]");
    check_refused(HEAD NODES "'edges':[\n{'sourceId':10,'destId':31,'cost':1}]}", "line 2, column 1",
                  "edges[0]: there is no node with the id 31");
    check_refused(HEAD NODES "'edges':[{'sourceId':10,'destId':30,'cost':1},\n{'sourceId':30,'destId':10,'cost':1}]}", "line 1",
                  "the edges close a cycle");
    check_refused(HEAD NODES "'edges':[{'sourceId':10,'destId':30,'cost':1},\n{'sourceId':10,'destId':20,'cost':2}]}",
                  "line 2, column 1", "another edge out of node 10 costs 1");
    check_refused(HEAD "'nodes':[\n{'id':1,'name':'x','cpuLatency':1,'fpgaLatency':1,'supportedOnFpga':0}],'edges':[]}",
                  "line 2, column 1", "nodes[0] 'x': supportedOnFpga is false");
    check_refused(HEAD "'nodes':[{'id':1,'cpuLatency':1}],'edges':[]}", "nodes[0]", "\"fpgaLatency\" is missing");
    check_refused(HEAD "'nodes':[{'id':1,'cpuLatency':-1,'fpgaLatency':1}],'edges':[]}", "nodes[0]", "cpuLatency is -1");
    check_refused(HEAD "'nodes':[{'id':1,'id':2,'cpuLatency':1,'fpgaLatency':1}],'edges':[]}", "nodes[0]", "\"id\" stands twice");
    check_refused(HEAD "'nodes':[]}", "line 1", "\"edges\" is missing");
    check_refused("{'maxSizePerFPGA':1,'maxFPGAs':60,'maxCPUs':5,'nodes':[],'edges':[]}", "line 1", "at most 64 devices");
    check_refused("{'maxSizePerFPGA':1,'maxFPGAs':1,'maxCPUs':0,'nodes':[],'edges':[]}", "line 1", "1 CPU or more");
}

/* Every beginning of a file is refused without harm. */
TEST(dnnpart, truncations) {
    char *text = small_quote(HEAD NODES EDGES);
    for (size_t length = 0; length < strlen(text); length++) {
        char *part = malloc(length + 1); /* of its own size, so that a sanitizer sees what reads beyond it */
        memcpy(part, text, length);
        stw_graph *graph = NULL;
        CHECK_EQ_INT(stw_graph_parse(part, length, "g.json", NULL, &graph, NULL), STW_ERROR_INPUT);
        free(part);
    }
    free(text);
}
