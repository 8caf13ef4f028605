# Evaluates a model from Julia: reads the rows of its one input from a file of raw numbers and prints its first output.
#
#     julia predict.jl $(python -m model_digits --libdir)/libmodel_digits.so rows.bin
#
# The shared library is a wheel's. Every function and type is documented in `include/model_digits.h` and
# `include/modelwheel/abi.h` beside it.

using Libdl

"`modelwheel_tensor`"
struct Tensor
    name::Cstring
    c_name::Cstring
    dtype::Cint
    item_bytes::Csize_t
    rank::Csize_t
    shape::Ptr{Int64}
    leading_per_row::Csize_t
    row_elements::Csize_t
    row_bytes::Csize_t
end

const OK = 0
const FLOAT32 = 11

length(ARGS) == 2 || error("usage: predict.jl LIBRARY ROWS")
const library = dlopen(ARGS[1])
symbol(name) = dlsym(library, "model_digits_$name")

"An instance, which one task at a time may use."
mutable struct Instance
    model::Ptr{Cvoid}

    function Instance()
        model, problem = Ref(C_NULL), zeros(UInt8, 256)
        status = ccall(symbol("create"), Cint, (Ptr{Cchar}, Ptr{Ptr{Cvoid}}, Ptr{UInt8}, Csize_t),
                       C_NULL, model, problem, length(problem))
        status == OK || error(GC.@preserve problem unsafe_string(pointer(problem)))
        instance = new(model[])
        finalizer(one -> ccall(symbol("destroy"), Cvoid, (Ptr{Cvoid},), one.model), instance)
    end
end

level(instance) = unsafe_string(ccall(symbol("level"), Cstring, (Ptr{Cvoid},), instance.model))

"The first output for dense rows of the one input. Buffers are row-major: each row is a column in Julia."
function run(instance, input::Vector{Float32})
    taken = unsafe_load(ccall(symbol("input"), Ptr{Tensor}, (Csize_t,), 0))
    made = unsafe_load(ccall(symbol("output"), Ptr{Tensor}, (Csize_t,), 0))
    inputs, outputs = (ccall(symbol(name), Csize_t, ()) for name in ("num_inputs", "num_outputs"))
    if (inputs, outputs) != (1, 1) || taken.dtype != FLOAT32 || made.dtype != FLOAT32
        error("this example is for one input and one output of float32")
    end
    rows = length(input) ÷ taken.row_elements
    output = Matrix{Float32}(undef, made.row_elements, rows)
    GC.@preserve input output instance begin
        status = ccall(symbol("run"), Cint, (Ptr{Cvoid}, Csize_t, Ptr{Ptr{Cvoid}}, Ptr{Ptr{Cvoid}}),
                       instance.model, rows, Ptr{Cvoid}[pointer(input)], Ptr{Cvoid}[pointer(output)])
        status == OK || error(unsafe_string(ccall(symbol("error"), Cstring, (Ptr{Cvoid},), instance.model)))
    end
    return output
end

function main()
    input = reinterpret(Float32, read(ARGS[2]))
    instance = Instance()
    println(stderr, level(instance))
    foreach(println, run(instance, collect(input)))
end

main()
