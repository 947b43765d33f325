/* TensorFlow graphs in text: no input crashes the reader, and what it takes is consistent. */
#define STW_READER_IS   stw_pbtxt_is
#define STW_READER_READ stw_pbtxt_read
#include "graph_reader.h"
