// A job as JSON text, sent to other processes.
//
// Functions cannot be sent. A user's own model extension, learning rate or schedule behaviour is
// sent by name; the reading process must have registered that name.

#pragma once

#include "runtime/job/job.hpp"

#include <map>
#include <string>

namespace troupe::runtime {

/// The functions that a process has registered by name, before it reads a job that names them.
struct registered_functions {
  std::map<std::string, extension> extensions;
  std::map<std::string, own_rate> rates;
  std::map<std::string, behaviour_factory> behaviours;
};

/// The functions that this job uses.
registered_functions functions_of(const training_job& job);

/// All fields; functions as their names. A string or path that is not UTF-8 becomes {"bytes":
/// hexadecimal}.
std::string to_json(const training_job& job);

/// The inverse of to_json. Throws input_error if the job names a function that is not in `known`,
/// or if the text is not the output of to_json.
training_job job_from_json(const std::string& text, const registered_functions& known = {});

}  // namespace troupe::runtime
