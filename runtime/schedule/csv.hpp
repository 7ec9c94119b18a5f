// Plans as text: the CSV format of torch.distributed.pipelining, one row per rank, one cell per
// action.
//
//   0F0,0F1,0I0,0W0        stage, action, micro-batch
//   (0F7;3B4)              an overlapped pair; also accepts torch's "(0F7;3B4)OVERLAP_F_B"
//   a0F3 b7I2              in one of two copies of the model
//   0I3.2 0R3.2            in one block of a divided backward pass, the last block first
//   0SEND_F1 1RECV_F1 1SEND_B1 0RECV_B1 0REDUCE_GRAD      after lowering
//
// Empty cells are ignored. An empty line is a rank without actions. UNSHARD and RESHARD, which
// torch adds for FSDP, are refused.

#pragma once

#include "runtime/schedule/plan.hpp"

#include <string>
#include <string_view>

namespace troupe::runtime {

/// One row per rank, each with a newline.
std::string to_csv(const plan& x);

/// Parses a plan. Chunks, copies, micro-batches, blocks and placement follow from the actions.
/// `name` is the name of the plan, and in messages, which also have line and cell. Throws
/// input_error for an invalid action, a chunk on two ranks, or a number above 1,000,000. check.hpp
/// checks that the plan can be executed.
plan plan_from_csv(std::string_view text, const std::string& name);

}  // namespace troupe::runtime
