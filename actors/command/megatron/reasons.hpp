// Why flags are accepted or refused, where several rows share a reason.

#pragma once

namespace troupe::command::megatron {

// Coming -----------------------------------------------------------------------------------------

constexpr const char* no_gpu = "it comes with the GPU, which this build does not use; leave it out";
constexpr const char* eight_bits
    = "8-bit and 4-bit products need a GPU, with which they come; leave it out, or use --bf16";
constexpr const char* experts
    = "it comes with mixture-of-experts layers, which this build does not have; leave it out";
constexpr const char* context
    = "it comes with context parallelism: this build does not cut samples over workers; leave it "
      "out, or use --pipeline-model-parallel-size";
constexpr const char* machines
    = "it comes with several machines; this build runs in one process; leave it out";
constexpr const char* gather_with_update
    = "parameters are gathered after the update, beside the next step: use "
      "--overlap-param-gather";
constexpr const char* split_backward
    = "weight gradients are put off by the schedule, for all layers: use --pipeline-schedule "
      "zb-h1, "
      "or another that splits the backward pass";
constexpr const char* sharded
    = "it comes with sharded parameters, which this build does not spread over replicas; use "
      "--use-distributed-optimizer, which spreads the optimizer's state";
constexpr const char* overlapped_products
    = "collectives of tensor parallelism are not overlapped with products in this build; that "
      "comes with the GPU; leave it out";
constexpr const char* blends
    = "it comes with blends of data sets; this build reads one, by --data-path";
constexpr const char* serving = "it comes with serving; this build has `troupe generate`";
constexpr const char* other_families
    = "it belongs to another family of models, and this build has the GPT; leave it out";
constexpr const char* latent
    = "it belongs to latent attention, which this build does not have; leave it out";
constexpr const char* depths
    = "it comes with multi-token prediction; this build predicts one token at a time; leave it out";

// Refused ----------------------------------------------------------------------------------------

constexpr const char* rank_order
    = "gradients are summed in rank order, so that the bits are always the same; use "
      "--ddp-bucket-size, or leave it out";
constexpr const char* torch_files
    = "it is about the files of torch.distributed, and checkpoints here are safetensors shards "
      "with a manifest; leave it out";
constexpr const char* board = "--tensorboard-dir writes what it writes; leave it out";
constexpr const char* other_services
    = "nothing is sent to a service; use --tensorboard-dir, --log-csv or --log-file";
constexpr const char* profiler
    = "no outer profiler is driven; use --profile-operations FILE, or --trace FILE";
constexpr const char* supervision = "supervision is part of every run here; leave it out";
constexpr const char* faults = "use --plant-fault WHO@STEP";
constexpr const char* other_recomputation
    = "activations are computed again by --recompute-granularity, -method, -num-layers and "
      "-modules only; leave it out";
constexpr const char* optimizers = "the optimizer is adam (AdamW); leave it out";
constexpr const char* reinforcement
    = "this program trains on text that is there; it has no reinforcement learning; leave it out";
constexpr const char* retrieval
    = "it belongs to retrieval by text encoders, which are not here; leave it out";
constexpr const char* vision = "it belongs to image models, which are not here; leave it out";
constexpr const char* after_training
    = "it belongs to quantisation and distillation, which are not here; leave it out";
constexpr const char* encoders
    = "it belongs to BERT or T5, and this program trains a GPT; leave it out";

// Accepted ---------------------------------------------------------------------------------------

constexpr const char* fused
    = "which operations are fused is this program's affair; the function is the same";
constexpr const char* always_fp32 = "this is always done in fp32, with --bf16 and --fp16 too";
constexpr const char* no_collector = "there is no garbage collector or allocator to advise";
constexpr const char* one_gpt = "there is one implementation of the GPT";
constexpr const char* one_attention = "the attention kernel never stores the T x T matrix";
constexpr const char* random_function
    = "random numbers are a function of seed, name, step and sample: they have no state";
constexpr const char* one_memory = "workers of one machine exchange memory, not packets";
constexpr const char* when_only = "it decides when something runs, and no result";
constexpr const char* mapped = "data sets are mapped; nothing is copied before it is used";

}  // namespace troupe::command::megatron
