/* HLO text: no input crashes the reader, and what it takes is consistent. */
#define STW_READER_IS   stw_hlo_text_is
#define STW_READER_READ stw_hlo_text_read
#include "graph_reader.h"
