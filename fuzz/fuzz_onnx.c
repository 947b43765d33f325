/* ONNX models: no input crashes the reader, and what it takes is consistent. */
#define STW_READER_IS   stw_onnx_is
#define STW_READER_READ stw_onnx_read
#include "graph_reader.h"
