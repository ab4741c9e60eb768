// What the recorder sampled of the thread that trains while a background thread communicates (collectors/threads.cpp), and what the ranks had
// ready for each other (interpose/agreement.h): tables thread_sample and agreement.
#pragma once

#include "store/ingest/process_load.h"
#include "store/ingest/record_stream.h"
#include "store/insert.h"

namespace ddl::store {

void load_training_thread(Statements& db, RecordStream& stream, ProcessTables& tables);

}  // namespace ddl::store
