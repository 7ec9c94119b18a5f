// A job as text: what a node is told, so that it could be another process's.
//
// Functions do not travel. What of a job is a user's own (a model's extension, a learning rate, a
// schedule's behaviour) goes by name, and the process that reads it must know that name.

#pragma once

#include "runtime/trainer/job.hpp"

#include <map>
#include <string>

namespace troupe::runtime {

/// What a process knows by name: registered before a job that names it is read.
struct registered_functions {
  std::map<std::string, extension> extensions;
  std::map<std::string, own_rate> rates;
  std::map<std::string, behaviour_factory> behaviours;
};

/// Those that this job holds.
registered_functions functions_of(const training_job& job);

/// Every field, but functions: those as their names. A text or path that is not UTF-8 goes as
/// {"bytes": hexadecimal}.
std::string to_json(const training_job& job);

/// The same job again. Throws input_error when it names a function that is not among `known`, and
/// when the text is none of to_json.
training_job job_from_json(const std::string& text, const registered_functions& known = {});

}  // namespace troupe::runtime
