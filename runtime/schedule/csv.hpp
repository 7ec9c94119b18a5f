// Plans as text: the CSV of torch.distributed.pipelining, one row a rank, a cell an action.
//
//   0F0,0F1,0I0,0W0        stage, action, micro-batch
//   (0F7;3B4)              an overlapped pair; torch's "(0F7;3B4)OVERLAP_F_B" is read as well
//   a0F3 b7I2              of one of two copies of the model
//   0I3.2 0R3.2            of a block of a backward pass in several, the last block first
//   0SEND_F1 1RECV_F1 1SEND_B1 0RECV_B1 0REDUCE_GRAD      after lowering
//
// Empty cells mean nothing; an empty line is a rank that does nothing; UNSHARD and RESHARD, which
// torch adds for its FSDP, are refused by name.

#pragma once

#include "runtime/schedule/plan.hpp"

#include <string>
#include <string_view>

namespace troupe::runtime {

/// One row a rank; a newline after each.
std::string to_csv(const plan& x);

/// The plan that a text is. Chunks, copies, micro-batches, blocks and placement are what its
/// actions name; `name` is the plan's, and stands in messages with line and cell. Throws
/// input_error for what is no action, for a chunk on two ranks, for numbers out of all proportion
/// (above 1,000,000). Whether it can be carried out is for check.hpp to say.
plan plan_from_csv(std::string_view text, const std::string& name);

}  // namespace troupe::runtime
