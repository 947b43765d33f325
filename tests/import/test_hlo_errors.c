/* import/hlo_text: a line of error names the place, the instruction and what to do. */
#include <string.h>

#include "import/import.h"
#include "test.h"

#define ENTRY(lines) "HloModule m\nENTRY e {\n x = f32[8] parameter(0)\n" lines "}\n"

static const struct {
    const char *text, *instruction, *remedy;
} cases[] = {
    {ENTRY(" y = f32[8] add(x, b)\n"), "line 4, column 20: instruction 'y': operand 'b' is not defined above",
     "before its readers"},
    {ENTRY(" y = f32[8] add(x, )\n"), "line 4, column 20: instruction 'y': the name of an operand", "such as %x"},
    {ENTRY(" y = f32[8] parameter()\n"), "instruction 'y': a parameter needs its number", "parameter(0)"},
    {ENTRY(" y = f32[8] (x)\n"), "instruction 'y': an opcode is expected", "f32[8] add(%x, %y)"},
    {ENTRY(" = f32[8] negate(x)\n"), "line 4, column 2: an instruction or '}' is expected", "written as %y = "},
    {ENTRY(" x = f32[8] negate(x)\n"), "instruction 'x': its name stands twice", "give one of the two another"},
    {ENTRY(" y = f32[8] constant({1,\n"), "instruction 'y': the constant has no end", "print the module again"},
    {ENTRY(" y = f32[8] fusion(x), calls=f\n"), "instruction 'y': computation 'f' is not defined above", "put it before"},
    {ENTRY(" y = f32[8] negate(x), control-predecessors={z}\n"), "instruction 'y': instruction 'z' is not", "put it before"},
    {ENTRY(" y = f32[8] negate(x), \n"), "instruction 'y': an attribute is expected", "take the comma away"},
    {ENTRY(" y = f32[8] reduce(x, x), to_apply=f, to_apply=f\n"), "instruction 'y': 'to_apply' stands twice", "keep one"},
    {ENTRY(" y = f32[8] get-tuple-element(x), index=z\n"), "instruction 'y': index must be a number", "index=0"},
    {ENTRY(" y = f32[a] negate(x)\n"), "line 4, column 10: instruction 'y': a shape needs numbers", "f32[8,128]"},
    {ENTRY(" y = f32[8]{1,0} negate(x)\n"), "instruction 'y': the layout does not fit", "leave the layout out"},
    {ENTRY(" y = f31[8] negate(x)\n"), "instruction 'y': a shape is expected", "such as f32[8,128]"},
    {ENTRY(" y = f32[99999999999999999999] negate(x)\n"), "instruction 'y': the shape holds more than", "check its dimensions"},
    {ENTRY("") "ENTRY g {\n x = f32[] parameter(0)\n}\n", "line 5, column 7: a second ENTRY", "take the word from the other"},
    {"HloModule m\nf {\n x = f32[] parameter(0)\n}\nf {\n x = f32[] parameter(0)\n}\n", "line 5, column 1: there are two",
     "give one of them another name"},
    {"HloModule m, is_scheduled=true\n\n", "line 3, column 1: the module has no computations",
     "cut off behind its head; print it again"},
    {"HloModule m\nENTRY e {\n x = f32[8] para", "line 3, column 17: instruction 'x': the text ends", "print the module again"},
    {"HloModule m\nENTRY e {\n x = f32[8] parameter(0)\n", "line 4, column 1: the text ends within", "print the module again"},
    {"HloModule m\nENTRY e {\n}\n", "line 2, column 7: computation 'e' has no instructions", ""},
    {"module @jit_f attributes {mhlo.num_partitions = 1 : i32} {\n}\n", "is StableHLO", "lowered.as_text('hlo')"},
    {"#loc1 = loc(\"x\")\nmodule @jit_f {\n}\n", "is StableHLO", "lowered.as_text('hlo')"},
    {"ML\xefR\x0dStableHLO_v1.0.0", "is StableHLO", "lowered.as_text('hlo')"},
};

TEST(hlo_errors, place_instruction_and_remedy) {
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        stw_error error = {0};
        stw_graph *graph = NULL;
        test_context("%s", cases[k].text);
        CHECK_EQ_INT(stw_graph_parse(cases[k].text, strlen(cases[k].text), "file", NULL, &graph, &error), STW_ERROR_INPUT);
        CHECK(graph == NULL && strchr(error.message, '\n') == NULL);
        CHECK_CONTAINS(error.message, cases[k].instruction);
        CHECK_CONTAINS(error.message, cases[k].remedy);
    }
    test_context("%s", "");
}

/* What follows an instruction that is whole does not name it. */
TEST(hlo_errors, no_instruction_after_one) {
    static const char text[] = ENTRY(" y = f32[8] negate(x)\n") "}";
    stw_error error = {0};
    stw_graph *graph = NULL;
    CHECK_EQ_INT(stw_graph_parse(text, strlen(text), "file", NULL, &graph, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "line 6, column 1: a computation is expected");
}
