//! A slab of values with handles that never mistake a new value for an old one.

use std::cmp::Ordering;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// Names one value of an [`Arena`] for as long as it lives.
pub struct Handle<T> {
    index: u32,
    generation: u32,
    kind: PhantomData<fn() -> T>,
}

impl<T> Handle<T> {
    /// Both halves in one number.
    pub const fn to_bits(self) -> u64 {
        ((self.generation as u64) << 32) | self.index as u64
    }

    /// From [`Handle::to_bits`]; any number is a handle, though perhaps of nothing.
    pub fn from_bits(bits: u64) -> Self {
        let low = u32::try_from(bits & u64::from(u32::MAX)).expect("masked to 32 bits");
        let high = u32::try_from(bits >> 32).expect("32 bits are left");
        Self { index: low, generation: high, kind: PhantomData }
    }

    /// The place in the arena, for structures that hold plain numbers.
    pub const fn index(self) -> u32 {
        self.index
    }
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<T> {}

impl<T> PartialEq for Handle<T> {
    fn eq(&self, other: &Self) -> bool {
        self.to_bits() == other.to_bits()
    }
}

impl<T> Eq for Handle<T> {}

impl<T> PartialOrd for Handle<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Handle<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.to_bits().cmp(&other.to_bits())
    }
}

impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}.{}", self.index, self.generation)
    }
}

struct Place<T> {
    generation: u32,
    value: Option<T>,
}

/// Values in places that are used again; each use of a place is a generation of its own.
pub struct Arena<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Arena<T> {
    /// Puts a value in.
    pub fn insert(&mut self, value: T) -> Handle<T> {
        if let Some(index) = self.free.pop() {
            let place = &mut self.places[index as usize];
            assert!(place.value.is_none(), "a free place is empty");
            place.value = Some(value);
            return Handle { index, generation: place.generation, kind: PhantomData };
        }
        let index = u32::try_from(self.places.len()).expect("bounds keep an arena far below 2^32 values");
        self.places.push(Place { generation: 0, value: Some(value) });
        Handle { index, generation: 0, kind: PhantomData }
    }

    /// Takes a value out; `None` when the handle's value is gone.
    pub fn remove(&mut self, handle: Handle<T>) -> Option<T> {
        let place = self.places.get_mut(handle.index as usize)?;
        if place.generation != handle.generation {
            return None;
        }
        let value = place.value.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(handle.index);
        Some(value)
    }

    /// The value, if it still lives.
    pub fn get(&self, handle: Handle<T>) -> Option<&T> {
        let place = self.places.get(handle.index as usize)?;
        if place.generation == handle.generation { place.value.as_ref() } else { None }
    }

    /// The value, if it still lives.
    pub fn get_mut(&mut self, handle: Handle<T>) -> Option<&mut T> {
        let place = self.places.get_mut(handle.index as usize)?;
        if place.generation == handle.generation { place.value.as_mut() } else { None }
    }

    /// The handle of the value that now lives at `index`.
    pub fn handle_at(&self, index: u32) -> Option<Handle<T>> {
        let place = self.places.get(index as usize)?;
        place.value.as_ref().map(|_| Handle { index, generation: place.generation, kind: PhantomData })
    }

    /// How many places there are, empty ones too: the range of [`Arena::handle_at`].
    pub fn places(&self) -> u32 {
        u32::try_from(self.places.len()).expect("bounds keep an arena far below 2^32 values")
    }

    /// How many values live.
    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// All living values in order of place.
    pub fn iter(&self) -> impl Iterator<Item = (Handle<T>, &T)> {
        (0..self.places()).filter_map(|index| {
            let handle = self.handle_at(index)?;
            Some((handle, self.get(handle)?))
        })
    }
}

impl<T> Index<Handle<T>> for Arena<T> {
    type Output = T;
    fn index(&self, handle: Handle<T>) -> &T {
        self.get(handle).expect("the engine indexes only what it knows to live")
    }
}

impl<T> IndexMut<Handle<T>> for Arena<T> {
    fn index_mut(&mut self, handle: Handle<T>) -> &mut T {
        self.get_mut(handle).expect("the engine indexes only what it knows to live")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_handle_never_finds_a_new_value() {
        let mut arena = Arena::default();
        let first = arena.insert("a");
        assert_eq!(arena.remove(first), Some("a"));
        let second = arena.insert("b");
        assert_eq!(first.index(), second.index());
        assert_eq!(arena.get(first), None);
        assert_eq!(arena.remove(first), None);
        assert_eq!(arena[second], "b");
        assert_eq!(Handle::from_bits(second.to_bits()), second);
        assert_eq!(arena.len(), 1);
    }
}
