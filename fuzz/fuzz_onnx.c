/* ONNX models: no input crashes the reader, and what it takes is consistent. */
#define STW_READER_IS                      stw_onnx_is
#define STW_READER_READ(bytes, out, error) stw_onnx_read(bytes, NULL, out, error)
#include "graph_reader.h"
