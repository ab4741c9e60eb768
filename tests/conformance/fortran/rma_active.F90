! One-sided communication in epochs that the targets take part in: windows of every flavour, fences, post-start-complete-wait; every operation.
! conformance: ranks=3
#include "conformance.inc"

program rma_active
  USE_MPI
  use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer, c_null_ptr
  use transcript
  implicit none
  INCLUDE_MPI

  integer, parameter :: N = 8
  integer :: rank, ranks, left, right, ierr, i
  integer, asynchronous, target :: memory(N), out(N), in(N)
  integer(MPI_ADDRESS_KIND) :: zero, bytes
  COMM_T :: world
  WIN_T :: win

  call begin_transcript
  call set_for_open_mpi('osc', 'sm,pt2pt')  ! without direct copies between processes its default has no windows of our memory
  call MPI_Init(ierr)
  world = MPI_COMM_WORLD
  call MPI_Comm_rank(world, rank, ierr)
  call MPI_Comm_size(world, ranks, ierr)
  left = mod(rank + ranks - 1, ranks)
  right = mod(rank + 1, ranks)
  zero = 0
  bytes = 4 * N
  ierr = UNSET

  memory = [(100 * rank + i, i = 1, N)]
  call MPI_Win_create(memory, bytes, 4, MPI_INFO_NULL, world, win, ierr)
  call note('MPI_Win_create', ierr)
  call operations('created', memory)
  call neighbours
  call look_at_the_window
  call MPI_Win_free(win, ierr)
  call note('MPI_Win_free', ierr, [merge(1, 0, win == MPI_WIN_NULL)])

  call allocated
  call shared
  call attached
  call write_calls
  call MPI_Finalize(ierr)

contains

  ! Every operation on the right neighbour's window, one fence each; `mine` is our part of the window.
  subroutine operations(name, mine)
    character(*), intent(in) :: name
    integer, asynchronous :: mine(:)
    out = [(1000 * rank + i, i = 1, N)]
    in = -1
    call MPI_Win_fence(MPI_MODE_NOPRECEDE, win, ierr)
    call note('MPI_Win_fence ' // name, ierr)
    call MPI_Put(out, 2, MPI_INTEGER, right, zero, 2, MPI_INTEGER, win, ierr)
    call note('MPI_Put', ierr)
    call MPI_Get(in, 3, MPI_INTEGER, left, zero + 2, 3, MPI_INTEGER, win, ierr)
    call note('MPI_Get', ierr)
    call fence(0, mine)
    call MPI_Accumulate(out, 2, MPI_INTEGER, 0, zero, 2, MPI_INTEGER, MPI_SUM, win, ierr)
    call note('MPI_Accumulate', ierr)
    call MPI_Accumulate(out, 1, MPI_INTEGER, right, zero + 5, 1, MPI_INTEGER, MPI_REPLACE, win LEFT_OUT)
    ierr = UNSET
    call fence(0, mine)
    in = -1
    call MPI_Get_accumulate(out, 2, MPI_INTEGER, in, 2, MPI_INTEGER, right, zero + 3, 2, MPI_INTEGER, MPI_SUM, win, ierr)
    call note('MPI_Get_accumulate', ierr)
    call fence(0, mine)
    in = -1
    call MPI_Get_accumulate(out, 0, MPI_DATATYPE_NULL, in, 2, MPI_INTEGER, right, zero + 3, 2, MPI_INTEGER, MPI_NO_OP, win, ierr)
    call note('MPI_Get_accumulate without an operation', ierr)
    call MPI_Fetch_and_op(out(4), in(4), MPI_INTEGER, right, zero + 7, MPI_MAX, win, ierr)
    call note('MPI_Fetch_and_op', ierr)
    call fence(0, mine)
    ! Swapped where it equals: on every second rank.
    in = -1
    out(2) = merge(out(2), -5, mod(rank, 2) == 0)
    mine(7) = 70
    call MPI_Win_fence(0, win LEFT_OUT)
    call MPI_Compare_and_swap(out(1), merge(70, 71, mod(rank, 2) == 0), in, MPI_INTEGER, right, zero + 6, win, ierr)
    call note('MPI_Compare_and_swap', ierr)
    call MPI_Put(out, 1, MPI_INTEGER, MPI_PROC_NULL, zero, 1, MPI_INTEGER, win, ierr)
    call note('MPI_Put to nobody', ierr)
    call fence(MPI_MODE_NOSUCCEED, mine)
  end subroutine

  ! What a fence ended, looked at before anybody goes on: some windows are changed at once, not at the next fence.
  subroutine fence(mode, mine)
    integer, intent(in) :: mode
    integer, asynchronous :: mine(:)
    call MPI_Win_fence(mode, win, ierr)
    call note('MPI_Win_fence', ierr, [mine, in])
    call MPI_Barrier(world, ierr)
    ierr = UNSET
  end subroutine

  ! Post, start, complete, wait between neighbours; MPI_Win_test instead of wait.
  subroutine neighbours
    GROUP_T :: all, to, from
    logical :: flag
    integer :: round
    call MPI_Comm_group(world, all, ierr)
    call MPI_Group_incl(all, 1, [right], to, ierr)
    call MPI_Group_incl(all, 1, [left], from, ierr)
    ierr = UNSET
    do round = 1, 2
      out = [(10 * rank + round + i, i = 1, N)]
      call MPI_Win_post(from, 0, win, ierr)
      call note('MPI_Win_post', ierr)
      call MPI_Win_start(to, 0, win, ierr)
      call note('MPI_Win_start', ierr)
      call MPI_Put(out, 4, MPI_INTEGER, right, zero, 4, MPI_INTEGER, win, ierr)
      call note('MPI_Put', ierr)
      call MPI_Win_complete(win, ierr)
      call note('MPI_Win_complete', ierr)
      if (round == 1) then
        call MPI_Win_wait(win, ierr)
        call note('MPI_Win_wait', ierr)
      else
        flag = .false.
        do while (.not. flag)
          call MPI_Win_test(win, flag, ierr)
        end do
        call note('MPI_Win_test', ierr, [is(flag)])
      end if
      call say('memory', memory)
      call MPI_Barrier(world, ierr)
      ierr = UNSET
    end do
    call MPI_Group_free(all, ierr)
    call MPI_Group_free(to, ierr)
    call MPI_Group_free(from, ierr)
    ierr = UNSET
  end subroutine

  subroutine look_at_the_window
    character(MPI_MAX_OBJECT_NAME) :: name
    GROUP_T :: group
    integer :: length, members
    call MPI_Win_set_name(win, 'halo', ierr)
    call note('MPI_Win_set_name', ierr)
    name = ''
    call MPI_Win_get_name(win, name, length, ierr)
    call note('MPI_Win_get_name', ierr, [length])
    call say('name', trim(name))
    call MPI_Win_get_group(win, group, ierr)
    call MPI_Group_size(group, members, ierr)
    call note('MPI_Win_get_group', ierr, [members])
    call MPI_Group_free(group, ierr)
    ierr = UNSET
  end subroutine

  subroutine allocated
    integer, pointer, asynchronous :: mine(:)
#if defined(BINDING_MPIF_H)
    integer(MPI_ADDRESS_KIND) :: base
    base = 0
#else
    type(c_ptr) :: base
    base = c_null_ptr
#endif
    call MPI_Win_allocate(bytes, 4, MPI_INFO_NULL, world, base, win, ierr)
    call note('MPI_Win_allocate', ierr)
    call c_f_pointer(transfer(base, c_null_ptr), mine, [N])
    mine = [(100 * rank + i, i = 1, N)]
    call operations('allocated', mine)
    call MPI_Win_free(win, ierr)
    call note('MPI_Win_free', ierr)
  end subroutine

  subroutine shared
    integer, pointer, asynchronous :: mine(:), theirs(:)
    integer(MPI_ADDRESS_KIND) :: size_bytes
    integer :: unit_bytes
#if defined(BINDING_MPIF_H)
    integer(MPI_ADDRESS_KIND) :: base
    base = 0
#else
    type(c_ptr) :: base
    base = c_null_ptr
#endif
    call MPI_Win_allocate_shared(bytes, 4, MPI_INFO_NULL, world, base, win, ierr)
    call note('MPI_Win_allocate_shared', ierr)
    call c_f_pointer(transfer(base, c_null_ptr), mine, [N])
    mine = [(100 * rank + i, i = 1, N)]
    call MPI_Win_shared_query(win, right, size_bytes, unit_bytes, base, ierr)
    call note('MPI_Win_shared_query', ierr, [int(size_bytes), unit_bytes])
    call c_f_pointer(transfer(base, c_null_ptr), theirs, [N])
    call MPI_Win_fence(0, win, ierr)
    call note('MPI_Win_fence', ierr, theirs)
    call MPI_Win_fence(0, win, ierr)
    theirs(2) = -rank
    call MPI_Win_fence(0, win, ierr)
    call note('MPI_Win_fence', ierr, mine)
    call MPI_Win_free(win, ierr)
    call note('MPI_Win_free', ierr)
  end subroutine

  subroutine attached
    integer(MPI_ADDRESS_KIND) :: place, places(0:ranks - 1)
    call MPI_Win_create_dynamic(MPI_INFO_NULL, world, win, ierr)
    call note('MPI_Win_create_dynamic', ierr)
    memory = [(100 * rank + i, i = 1, N)]
    call MPI_Win_attach(win, memory, bytes, ierr)
    call note('MPI_Win_attach', ierr)
    call MPI_Get_address(memory, place, ierr)
    call MPI_Allgather(place, 1, MPI_AINT, places, 1, MPI_AINT, world, ierr)
    call MPI_Win_fence(0, win, ierr)
    call note('MPI_Win_fence', ierr)
    out = -rank
    call MPI_Put(out, 2, MPI_INTEGER, right, places(right), 2, MPI_INTEGER, win, ierr)
    call note('MPI_Put', ierr)
    call MPI_Win_fence(0, win, ierr)
    call note('MPI_Win_fence', ierr, memory)
    call MPI_Win_detach(win, memory, ierr)
    call note('MPI_Win_detach', ierr)
    call MPI_Win_free(win, ierr)
    call note('MPI_Win_free', ierr)
  end subroutine
end program
