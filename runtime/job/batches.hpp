// The micro-batches of a job: the tensors that its data have and that its model reads.

#pragma once

#include "runtime/job/job.hpp"
#include "runtime/tensor/batch_schema.hpp"

#include <string>
#include <vector>

namespace troupe::runtime {

/// The tensors of the job's data, without opening them.
batch_schema schema_of(const training_job& job);

/// Throws input_error if a unit of the model reads a tensor that the data lack (DATA-4), if no
/// micro-batch can have these tensors, or if they are not those of schema_of.
void require_tensors(const training_job& job, const batch_schema& data);

/// Appends a sentence for each stream whose rows tensor ranks cannot share, and one if the rows of
/// the first loss cannot be counted. The schema must be that of the model's data.
void validate_rows(const training_job& job,
                   const model_spec& model,
                   const batch_schema& schema,
                   std::vector<std::string>& wrong);

/// Appends sentences about require_tensors for the job's data, and those of validate_rows. The
/// model must be valid.
void validate_batches(const training_job& job, std::vector<std::string>& wrong);

}  // namespace troupe::runtime
